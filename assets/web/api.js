// The server's answers as values, its refusals as one kind of error.

const KEY = "hearthcast.token";

/** Where the server is: behind a proxy the page may lie below a path, such as `/tv/`. */
const ROOT = new URL("..", import.meta.url).pathname;

/** A path of the server's, e.g. `/api/health`, as this page reaches it. One that the server has completed stays. */
export const at = (path) => (!path.startsWith("/") || path.startsWith(ROOT) ? path : ROOT + path.slice(1));

let token = read();

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // Storage may be switched off: then the sign-in lives as long as the page.
  }
}

export const signedIn = () => token !== null;

export function remember(value) {
  token = value;
  try {
    if (value === null) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
  } catch {
    // As above.
  }
}

/** A refusal: `code` is an error code of the server, or `OFFLINE`. */
export class ApiError extends Error {
  constructor(code, message, { status = 0, details = null, retryAfter = null } = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.details = details;
    this.retryAfter = retryAfter; // Seconds.
  }
}

/** What passes by itself (somebody else's conversion ends, a channel comes up), and how long it is waited for, ms. */
const PASSING = { TRANSCODER_BUSY: 300_000, CHANNEL_UNAVAILABLE: 60_000, SERVER_BUSY: 60_000, PROBE_TIMED_OUT: 60_000 };

/**
 * Does what needs a place to convert in. While there is none it asks again, as often as the server wants to be asked, and
 * tells `waits(error)`; `waits(null)` when it is done. Ends with the signal, or in time with what was refused.
 */
export async function whenFree(work, waits, signal) {
  const began = performance.now();
  for (let told = false; ; told = true) {
    try {
      const done = await work();
      if (told) waits(null);
      return done;
    } catch (error) {
      if (!(performance.now() - began < PASSING[error.code])) throw error;
      waits(error);
      await pause(1000 * Math.min(5, error.retryAfter || 1), signal);
    }
  }
}

/** Resolves after `ms`; rejects when the signal comes first. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const ended = () => {
      clearTimeout(timer);
      reject(new DOMException("left", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, ms);
    if (signal?.aborted) ended();
    else signal?.addEventListener("abort", ended, { once: true });
  });
}

async function request(method, path, { body, query, keepalive, signal, extra } = {}) {
  const url = at(query ? `${path}?${new URLSearchParams(query)}` : path);
  const headers = { ...extra };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  const ask = () => fetch(url, { method, headers, keepalive, signal, body: body && JSON.stringify(body) });
  try {
    // What only reads is asked once more: a connection that was kept may have ended meanwhile.
    answer = await ask().catch((cause) => {
      if (method !== "GET" || cause.name === "AbortError") throw cause;
      return new Promise((resolve) => setTimeout(resolve, 300)).then(ask);
    });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new ApiError("OFFLINE", "The server does not answer. Is it still running?");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  const body = await answer.json().catch(() => ({}));
  const error = new ApiError(body.code ?? "INTERNAL", body.error ?? `answer ${answer.status}`,
    { status: answer.status, details: body.details, retryAfter: Number(answer.headers.get("Retry-After")) || null });
  if (token && (error.code === "UNAUTHORIZED" || error.code === "TOKEN_EXPIRED")) {
    remember(null);
    window.dispatchEvent(new Event("signed-out"));
  }
  return error;
}

const json = async (...call) => (await request(...call)).json();
/** The same where the answer says nothing: it is read to its end, or its connection stays taken. */
const done = async (...call) => { await (await request(...call)).arrayBuffer(); };

export const authStatus = () => json("GET", "/api/auth/status");
export const me = () => json("GET", "/api/auth/me");
export const setUp = (code, username, password) =>
  json("POST", "/api/auth/setup", { body: { code, username, password, deviceName: device() } });
export const signIn = (username, password) =>
  json("POST", "/api/auth/login", { body: { username, password, deviceName: device() } });
export async function signOut() {
  await done("POST", "/api/auth/logout").catch(() => {}); // Forgotten here whether or not the server heard it.
  remember(null);
}

/** One page of a folder; without a path, the roots. */
export const browse = (path, cursor) =>
  json("GET", "/api/library", { query: { ...(path && { path }), ...(cursor && { cursor }) } });
/** All about a file, and how it would play on a device. */
export const info = (path, deviceProfile, signal) =>
  json("POST", "/api/stream/info/full", { query: { path }, body: { deviceProfile }, signal });
/** Starts a file; while the converter is taken (often by what this page has just left) it waits, and says so. */
export const start = (wish, waits, signal) =>
  whenFree(() => json("POST", "/api/stream/transcode/start", { body: wish, signal }), waits, signal);
export const status = ({ sessionId }) => json("GET", `/api/stream/transcode/${encodeURIComponent(sessionId)}/status`);
/** Whether something can be had. */
export const exists = (url, signal) => request("HEAD", url, { signal }).then(() => true, () => false);
export const text = async (url, signal) => (await request("GET", url, { signal })).text();

/** Saves how far one is in a file; `leaving` while the page goes away. */
export const saveProgress = (how, leaving) =>
  done("POST", "/api/stream/progress", { body: how, keepalive: leaving });
export const forget = (path) => json("DELETE", "/api/stream/progress", { query: { path } });
export const markWatched = (mediaPath) => json("POST", "/api/stream/progress/watched", { body: { mediaPath } });
export const history = (query) => json("GET", "/api/stream/history", { query });
export const nextUp = (limit) => json("GET", "/api/stream/next-up", { query: { limit } });
/** What happens elsewhere, as a stream. */
export const events = (last, signal) => request("GET", "/api/events", { signal, extra: last && { "Last-Event-ID": last } });

/** A book on one timeline: a file, or a folder of files. */
export const book = (path, signal) => json("GET", "/api/stream/audiobook", { query: { path }, signal });
export const saveBook = (how, leaving) =>
  done("POST", "/api/stream/audiobook/progress", { body: how, keepalive: leaving });
export const books = (query) => json("GET", "/api/stream/audiobook/history", { query });

export const channels = (query, signal) => json("GET", "/api/livetv/channels", { query, signal });
export const channel = (id) => json("GET", `/api/livetv/channels/${id}`);
export const epg = (query, signal) => json("GET", "/api/livetv/epg", { query, signal });
export const addChannel = (body) => json("POST", "/api/livetv/channels?skipInvalid=true", { body });
export const changeChannel = (id, body) => json("PATCH", `/api/livetv/channels/${id}?skipInvalid=true`, { body });
export const removeChannel = (id) => json("DELETE", `/api/livetv/channels/${id}`);
/** What is on a channel now, and what comes next. */
export const onNow = (channelId) => json("GET", "/api/livetv/now", { query: { channelId } });
/** Goes on with the next programme of a channel that is on demand; gives what is on then. */
export const skipProgramme = (id) => json("POST", `/api/livetv/channels/${id}/skip`);
/** Lists and guides elsewhere. */
export const sources = () => json("GET", "/api/livetv/sources");
export const addSource = (body) => json("POST", "/api/livetv/sources", { body });
export const changeSource = (id, body) => json("PATCH", `/api/livetv/sources/${id}`, { body });
export const removeSource = (id) => json("DELETE", `/api/livetv/sources/${id}`);
export const refreshSource = (id) => json("POST", `/api/livetv/sources/${id}/refresh`);
export const previewSource = (body) => json("POST", "/api/livetv/sources/preview", { body });
export const recordings = (signal) => json("GET", "/api/livetv/recordings", { signal });
export const record = (body) => json("POST", "/api/livetv/recordings", { body });
export const removeRecording = (id, file = "keep") => json("DELETE", `/api/livetv/recordings/${encodeURIComponent(id)}`, { query: { file } });
export const removeSeries = (id) => json("DELETE", `/api/livetv/recordings/series/${encodeURIComponent(id)}`);
export const previewChange = (id, body) => json("POST", `/api/livetv/channels/${id}/preview?skipInvalid=true`, { body });
/** Who vouched for what comes from elsewhere, and who withdrew it. */
export const audit = () => json("GET", "/api/livetv/audit");
export const previewChannel = (body) => json("POST", "/api/livetv/channels/preview?skipInvalid=true", { body });

/**
 * Tunes in to a channel, waiting until it plays; gives where its playlist is. The answer leads there by itself, and who
 * may read it stands in the headers.
 */
export async function tune(id, query, waits, signal) {
  for (let tries = 0; tries < 8; tries += 1) {
    const ask = () => request("GET", `/api/livetv/watch/${id}`, { query: { wait: 15, ...query }, signal });
    const answer = await whenFree(ask, waits, signal);
    const url = new URL(answer.url);
    if (answer.redirected && url.pathname.endsWith(".m3u8")) {
      answer.body?.cancel();
      return `${url.pathname}${url.search}`;
    }
    await pause(300, signal);
  }
  throw new ApiError("CHANNEL_UNAVAILABLE", "the channel did not start in time");
}
/** Ends a view of a channel. */
export const untune = (id, watchSession) =>
  done("DELETE", `/api/livetv/watch/${id}`, { query: { watchSession }, keepalive: true }).catch(() => {});
/** What players must send with a request of ours. */
export const authorization = () => (token ? `Bearer ${token}` : null);

export const workers = (signal) => json("GET", "/api/stream/v2-workers", { signal });
export const health = (signal) => json("GET", "/api/health", { signal });
/** Everybody's sessions, for admins; and the end of any of them. */
export const sessions = (signal) => json("GET", "/api/stream/transcode/sessions", { signal });
export const stopSession = (id) => done("DELETE", `/api/stream/transcode/${encodeURIComponent(id)}`);
export const pipelines = (signal) => json("GET", "/api/debug/pipelines", { signal });
export const log = (after, signal) => json("GET", "/api/debug/log", { query: { after }, signal });
export const users = () => json("GET", "/api/users");
export const addUser = (body) => json("POST", "/api/users", { body });
export const removeUser = (id) => done("DELETE", `/api/users/${encodeURIComponent(id)}`);
export const userTokens = (id) => json("GET", `/api/users/${encodeURIComponent(id)}/tokens`);
export const removeUserToken = (id, token) =>
  done("DELETE", `/api/users/${encodeURIComponent(id)}/tokens/${encodeURIComponent(token)}`);
export const devices = () => json("GET", "/api/auth/sessions");
export const removeDevice = (id) => done("DELETE", `/api/auth/sessions/${encodeURIComponent(id)}`);
export const changePassword = (body) => done("POST", "/api/auth/password", { body });
export const tokens = () => json("GET", "/api/livetv/tokens");
export const addToken = (body) => json("POST", "/api/livetv/tokens", { body });
export const removeToken = (id) => done("DELETE", `/api/livetv/tokens/${encodeURIComponent(id)}`);

/**
 * Resolves when a session's playlist can be played: until its first segment is made, which may take a busy machine a
 * while, the server answers with its progress instead.
 */
export async function playable(url, signal) {
  for (let tries = 0; tries < 6; tries += 1) {
    const answer = await request("GET", `${url}&wait=20`, { signal });
    if (!answer.headers.get("Content-Type")?.includes("json")) return;
  }
  throw new ApiError("SEGMENT_TIMEOUT", "the first segment was not made in time");
}

/** Ends a session; also while the page goes away, when only a beacon still leaves the browser. */
export function stop(session, { leaving = false } = {}) {
  const path = `/api/stream/transcode/${encodeURIComponent(session.sessionId)}`;
  if (!leaving) return done("DELETE", path, { keepalive: true }).catch(() => {});
  const grant = new URL(session.signedPlaylistUrl, location.href).searchParams.get("st");
  navigator.sendBeacon(`${at(path)}/stop?${new URLSearchParams({ st: grant ?? "" })}`);
}

/** A name for this browser in the list of sign-ins. */
function device() {
  const system = navigator.userAgentData?.platform ?? navigator.platform ?? "";
  const brand = navigator.userAgentData?.brands?.find(({ brand }) => !/not.*brand|chromium/i.test(brand))?.brand;
  return [brand ?? "Browser", system].filter(Boolean).join(" on ").slice(0, 64);
}
