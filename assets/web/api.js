// The server's API: one function per route, and every error as one type.

import { TEXT } from "./strings.js";

const TOKEN_KEY = "hearthcast.token";

/** The path of the page: behind a proxy it may be below a path, such as `/tv/`. */
const BASE_PATH = new URL("..", import.meta.url).pathname;

/** A server path such as `/api/health` as this page reaches it. A path that already begins with `BASE_PATH` stays. */
export const resolvePath = (path) => (!path.startsWith("/") || path.startsWith(BASE_PATH) ? path : BASE_PATH + path.slice(1));

let token = loadToken();

function loadToken() {
  try {
    return localStorage.getItem(TOKEN_KEY);
  } catch {
    return null; // Storage may be switched off; the sign-in then lasts as long as the page.
  }
}

export const isSignedIn = () => token !== null;

export function setToken(value) {
  token = value;
  window.dispatchEvent(new Event("user-changed"));
  try {
    if (value === null) localStorage.removeItem(TOKEN_KEY);
    else localStorage.setItem(TOKEN_KEY, value);
  } catch {
    // As above.
  }
}

/** A refusal: `code` is an error code of the server, or `OFFLINE`. */
class ApiError extends Error {
  constructor(code, message, { status = 0, details = null, retryAfter = null } = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.details = details;
    this.retryAfter = retryAfter; // Seconds.
  }
}

/** Temporary errors, and how long each is retried, ms. */
const RETRY_LIMITS_MS = { TRANSCODER_BUSY: 300_000, CHANNEL_UNAVAILABLE: 60_000, SERVER_BUSY: 60_000, PROBE_TIMED_OUT: 60_000 };

/**
 * Runs `work`, and retries it while the server refuses with a temporary error, at the interval of its `Retry-After` header.
 * Calls `onWait(error)` before each retry and `onWait(null)` when the work succeeds after one. Throws the last error when
 * the time in `RETRY_LIMITS_MS` is over, and an `AbortError` when the signal is aborted.
 */
async function retryWhileBusy(work, onWait, signal) {
  const began = performance.now();
  for (let hasWaited = false; ; hasWaited = true) {
    try {
      const result = await work();
      if (hasWaited) onWait(null);
      return result;
    } catch (error) {
      if (!(performance.now() - began < RETRY_LIMITS_MS[error.code])) throw error;
      onWait(error);
      await delay(1000 * Math.min(5, error.retryAfter || 1), signal);
    }
  }
}

/** Resolves after `ms`; rejects with an `AbortError` when the signal is aborted first. */
function delay(ms, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(new DOMException("left", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Aborted while the user signs out: what is read then is no longer shown, and the server may refuse it. */
let signOutController = new AbortController();

/** Aborted when the user signs out, or when `signal` is. Browsers before 2024 know only the latter. */
const untilSignOut = (signal) => !signal ? signOutController.signal : AbortSignal.any?.([signal, signOutController.signal]) ?? signal;

/**
 * @param {string} method
 * @param {string} path
 * @param {{ body?: object, query?: any, keepalive?: boolean, signal?: AbortSignal, extraHeaders?: object }} [options]
 */
async function request(method, path, { body, query, keepalive, signal, extraHeaders } = {}) {
  const url = resolvePath(query ? `${path}?${new URLSearchParams(query)}` : path);
  const headers = { ...extraHeaders };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  const until = method === "GET" ? untilSignOut(signal) : signal;
  const send = () => fetch(url, { method, headers, keepalive, signal: until, body: body && JSON.stringify(body) });
  try {
    // A GET is repeated once: the server may have closed the kept-alive connection.
    response = await send().catch((cause) => {
      if (method !== "GET" || cause.name === "AbortError") throw cause;
      return new Promise((resolve) => setTimeout(resolve, 300)).then(send);
    });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new ApiError("OFFLINE", "the server cannot be reached");
  }
  if (!response.ok) throw await toApiError(response);
  return response;
}

async function toApiError(response) {
  const body = await response.json().catch(() => ({}));
  const error = new ApiError(body.code ?? "INTERNAL", body.error ?? `HTTP status ${response.status}`,
    { status: response.status, details: body.details, retryAfter: Number(response.headers.get("Retry-After")) || null });
  if (token && (error.code === "UNAUTHORIZED" || error.code === "TOKEN_EXPIRED")) {
    setToken(null);
    window.dispatchEvent(new Event("signed-out"));
  }
  return error;
}

const requestJson = async (/** @type {Parameters<typeof request>} */ ...call) => (await request(...call)).json();
/** For a response without content. The body is read to its end because the connection stays in use otherwise. */
const requestEmpty = async (/** @type {Parameters<typeof request>} */ ...call) => { await (await request(...call)).arrayBuffer(); };

export const getAuthStatus = () => requestJson("GET", "/api/auth/status");
let lastUser = ""; // Name and role in the last response: an admin may change them at any time.
export async function getCurrentUser() {
  const response = await requestJson("GET", "/api/auth/me");
  const user = `${response.user.role} ${response.user.username}`;
  if (lastUser && lastUser !== user) window.dispatchEvent(new Event("user-edited"));
  lastUser = user;
  return response;
}
export const setUp = (code, username, password) =>
  requestJson("POST", "/api/auth/setup", { body: { code, username, password, deviceName: browserName() } });
export const signIn = (username, password) =>
  requestJson("POST", "/api/auth/login", { body: { username, password, deviceName: browserName() } });
export async function signOut() {
  signOutController.abort();
  // The token is dropped here even if the server cannot be reached.
  await requestEmpty("POST", "/api/auth/logout").catch(() => {});
  setToken(null);
  signOutController = new AbortController();
}

/** The members of the household. */
export const getHousehold = () => requestJson("GET", "/api/household");
export const changeOwnMember = (body) => requestJson("PATCH", "/api/household/me", { body });
/** Changes the user of this device; the former user's token ends. */
export async function changeUser(body) {
  const { token: other } = await requestJson("POST", "/api/household/user", { body });
  signOutController.abort();
  setToken(null); // What this device keeps of the former user is dropped.
  setToken(other);
  signOutController = new AbortController();
}

/** One page of a folder, or of the roots when `path` is missing. */
export const listFolder = (path, cursor) =>
  requestJson("GET", "/api/library", { query: { ...(path && { path }), ...(cursor && { cursor }) } });
/** The media folders, for admins. */
export const getMediaFolders = () => requestJson("GET", "/api/library/folders");
export const addMediaFolder = (body) => requestJson("POST", "/api/library/folders", { body });
export const deleteMediaFolder = (id) => requestEmpty("DELETE", `/api/library/folders/${encodeURIComponent(id)}`);
/** The folders in a folder of the server. */
export const listServerFolder = (path) => requestJson("GET", "/api/server/folders", { query: { path } });
/** A page of items of the catalogue. */
export const getItems = (query, signal) => requestJson("GET", "/api/library/items", { query, signal });
export const getItem = (id) => requestJson("GET", `/api/library/items/${encodeURIComponent(id)}`);
export const getSimilar = (id) => requestJson("GET", `/api/library/items/${encodeURIComponent(id)}/similar`);
export const getGenres = (kind) => requestJson("GET", "/api/library/genres", { query: { kind } });
export const getAllSeries = (query, signal) => requestJson("GET", "/api/library/series", { query, signal });
export const getAlbums = (query, signal) => requestJson("GET", "/api/library/albums", { query, signal });
/** Artists of music, with a cover each. */
export const getArtists = (query, signal) => requestJson("GET", "/api/library/artists", { query, signal });
/** Audiobooks, each once: a file, or a folder of parts. */
export const getBooks = (query, signal) => requestJson("GET", "/api/library/books", { query, signal });
export const getSeries = (id) => requestJson("GET", `/api/library/series/${encodeURIComponent(id)}`);
/** Items, series, people, channels and programmes with all words of `q`. */
export const search = (q, limit, signal) => requestJson("GET", "/api/library/search", { query: { q, limit }, signal });
/** Media info of a file, and how it would play in a client (`deviceProfile`, `capabilities`); repeated while the server is too busy to probe the file. */
export const getMediaInfo = (path, client, signal, onWait = () => {}) =>
  retryWhileBusy(() => requestJson("POST", "/api/stream/info/full", { query: { path }, body: client, signal }), onWait, signal);
/** Starts playback of a file; waits while all encode slots are in use (often by what this page has just stopped). */
export const startPlayback = (options, onWait, signal) =>
  retryWhileBusy(() => requestJson("POST", "/api/stream/transcode/start", { body: options, signal }), onWait, signal);
export const getSessionStatus = ({ sessionId }) => requestJson("GET", `/api/stream/transcode/${encodeURIComponent(sessionId)}/status`);
/** Whether a URL can be loaded. */
export const urlExists = (url, signal) => request("HEAD", url, { signal }).then(() => true, () => false);
export const getText = async (url, signal) => (await request("GET", url, { signal })).text();

/** Saves the progress in a file; `unloading` while the page is being closed. */
export const saveProgress = (progress, unloading) =>
  requestEmpty("POST", "/api/stream/progress", { body: progress, keepalive: unloading });
export const deleteProgress = (path) => requestJson("DELETE", "/api/stream/progress", { query: { path } });
export const markWatched = (mediaPath) => requestJson("POST", "/api/stream/progress/watched", { body: { mediaPath } });
export const getHistory = (query) => requestJson("GET", "/api/stream/history", { query });
export const getNextUp = (limit) => requestJson("GET", "/api/stream/next-up", { query: { limit } });
/** The server-sent events of this user, as a stream, after the event with the id `last`. */
export const openEventStream = (last, signal) => request("GET", "/api/events", { signal, extraHeaders: last && { "Last-Event-ID": last } });

/** An audiobook as one timeline: a file, or a folder of files. */
export const getAudiobook = (path, signal) => requestJson("GET", "/api/stream/audiobook", { query: { path }, signal });
export const saveAudiobookProgress = (progress, unloading) =>
  requestEmpty("POST", "/api/stream/audiobook/progress", { body: progress, keepalive: unloading });
export const getAudiobookHistory = (query) => requestJson("GET", "/api/stream/audiobook/history", { query });

export const getChannels = (query, signal) => requestJson("GET", "/api/livetv/channels", { query, signal });
export const getChannel = (id) => requestJson("GET", `/api/livetv/channels/${id}`);
export const getEpg = (query, signal) => requestJson("GET", "/api/livetv/epg", { query, signal });
export const addChannel = (body) => requestJson("POST", "/api/livetv/channels?skipInvalid=true", { body });
export const updateChannel = (id, body) => requestJson("PATCH", `/api/livetv/channels/${id}?skipInvalid=true`, { body });
export const deleteChannel = (id) => requestJson("DELETE", `/api/livetv/channels/${id}`);
/** The current programme of a channel and the next one. */
export const getNowNext = (channelId) => requestJson("GET", "/api/livetv/now", { query: { channelId } });
/** Skips to the next programme of an on-demand channel; returns the programme that is on then. */
export const skipProgramme = (id) => requestJson("POST", `/api/livetv/channels/${id}/skip`);
/** Imported playlists and guides. */
export const getSources = () => requestJson("GET", "/api/livetv/sources");
export const addSource = (body) => requestJson("POST", "/api/livetv/sources", { body });
export const updateSource = (id, body) => requestJson("PATCH", `/api/livetv/sources/${id}`, { body });
export const deleteSource = (id) => requestJson("DELETE", `/api/livetv/sources/${id}`);
export const refreshSource = (id) => requestJson("POST", `/api/livetv/sources/${id}/refresh`);
export const previewSource = (body) => requestJson("POST", "/api/livetv/sources/preview", { body });
export const getAccountPreferences = (signal) => requestJson("GET", "/api/preferences", { signal });
/** Changes what the body names; answers all preferences. */
export const changeAccountPreferences = (body, signal) => requestJson("PATCH", "/api/preferences", { body, signal });
export const getRecordings = (signal) => requestJson("GET", "/api/livetv/recordings", { signal });
export const scheduleRecording = (body) => requestJson("POST", "/api/livetv/recordings", { body });
export const deleteRecording = (id, file = "keep") => requestJson("DELETE", `/api/livetv/recordings/${encodeURIComponent(id)}`, { query: { file } });
export const changeSeries = (id, body) => requestJson("PATCH", `/api/livetv/recordings/series/${encodeURIComponent(id)}`, { body });
export const deleteSeries = (id) => requestJson("DELETE", `/api/livetv/recordings/series/${encodeURIComponent(id)}`);
export const previewChannelUpdate = (id, body) => requestJson("POST", `/api/livetv/channels/${id}/preview?skipInvalid=true`, { body });
/** The log of confirmed and withdrawn permissions for external channels. */
export const getAuditLog = () => requestJson("GET", "/api/livetv/audit");
export const previewChannel = (body) => requestJson("POST", "/api/livetv/channels/preview?skipInvalid=true", { body });

/** Tunes in to a channel and waits until it plays; returns the address of its playlist, to which the server redirects. */
export async function tuneIn(id, query, onWait, signal) {
  for (let attempt = 0; attempt < 8; attempt += 1) {
    const requestPlaylist = () => request("GET", `/api/livetv/watch/${id}`, { query: { wait: 15, ...query }, signal });
    const response = await retryWhileBusy(requestPlaylist, onWait, signal);
    const url = new URL(response.url);
    if (response.redirected && url.pathname.endsWith(".m3u8")) {
      response.body?.cancel();
      return `${url.pathname}${url.search}`;
    }
    await delay(300, signal);
  }
  throw new ApiError("CHANNEL_UNAVAILABLE", "The channel did not start in time.");
}
/** Ends a viewer's session on a channel. */
export const leaveChannel = (id, watchSession) =>
  requestEmpty("DELETE", `/api/livetv/watch/${id}`, { query: { watchSession }, keepalive: true }).catch(() => {});

export const getWorkers = (signal) => requestJson("GET", "/api/stream/v2-workers", { signal });
export const getHealth = (signal) => requestJson("GET", "/api/health", { signal });
/** Sessions of all users, for admins. */
export const getSessions = (signal) => requestJson("GET", "/api/stream/transcode/sessions", { signal });
export const stopSession = (id) => requestEmpty("DELETE", `/api/stream/transcode/${encodeURIComponent(id)}`);
/** How busy the server was: samples after the one with this number, for admins. */
export const getServerStatus = (after, signal) => requestJson("GET", "/api/server/status", { query: { after }, signal });
/** Files that crashed workers, for admins. */
export const getQuarantine = (signal) => requestJson("GET", "/api/quarantine", { signal });
export const liftQuarantine = (id) => requestEmpty("DELETE", `/api/quarantine/${encodeURIComponent(id)}`);
export const getPipelines = (signal) => requestJson("GET", "/api/debug/pipelines", { signal });
export const getLog = (after, signal) => requestJson("GET", "/api/debug/log", { query: { after }, signal });
export const getUsers = () => requestJson("GET", "/api/users");
export const addUser = (body) => requestJson("POST", "/api/users", { body });
export const changeMember = (id, body) => requestJson("PATCH", `/api/users/${encodeURIComponent(id)}`, { body });
export const deleteUser = (id) => requestEmpty("DELETE", `/api/users/${encodeURIComponent(id)}`);
/** Sets another user's password, and ends their sign-ins. */
export const setUserPassword = (id, newPassword) => requestEmpty("POST", `/api/users/${encodeURIComponent(id)}/password`, { body: { newPassword, keepStreamTokens: true } });
export const getUserTokens = (id) => requestJson("GET", `/api/users/${encodeURIComponent(id)}/tokens`);
export const deleteUserToken = (id, token) =>
  requestEmpty("DELETE", `/api/users/${encodeURIComponent(id)}/tokens/${encodeURIComponent(token)}`);
export const getDevices = () => requestJson("GET", "/api/auth/sessions");
export const deleteDevice = (id) => requestEmpty("DELETE", `/api/auth/sessions/${encodeURIComponent(id)}`);
export const changePassword = (body) => requestEmpty("POST", "/api/auth/password", { body });
export const getTokens = () => requestJson("GET", "/api/livetv/tokens");
export const addToken = (body) => requestJson("POST", "/api/livetv/tokens", { body });
export const deleteToken = (id) => requestEmpty("DELETE", `/api/livetv/tokens/${encodeURIComponent(id)}`);

/**
 * Resolves when the playlist of a session can be played. Until the first segment exists, which may take a while on a busy
 * machine, the server answers with the session's progress as JSON.
 */
export async function waitForPlaylist(url, signal) {
  for (let attempt = 0; attempt < 6; attempt += 1) {
    const response = await request("GET", `${url}&wait=20`, { signal });
    if (!response.headers.get("Content-Type")?.includes("json")) return;
  }
  throw new ApiError("SEGMENT_TIMEOUT", "The first segment was not ready in time.");
}

/** Ends a session; with `unloading` by a beacon, the only request that outlives the page. */
export function endSession(session, { unloading = false } = {}) {
  const path = `/api/stream/transcode/${encodeURIComponent(session.sessionId)}`;
  if (!unloading) return requestEmpty("DELETE", path, { keepalive: true }).catch(() => {});
  const grant = new URL(session.signedPlaylistUrl, location.href).searchParams.get("st");
  navigator.sendBeacon(`${resolvePath(path)}/stop?${new URLSearchParams({ st: grant ?? "" })}`);
}

/** The name of this browser in the list of devices. */
function browserName() {
  const { userAgentData } = /** @type {any} */ (navigator);
  const platform = userAgentData?.platform ?? navigator.platform ?? "";
  const brand = userAgentData?.brands?.find(({ brand }) => !/not.*brand|chromium/i.test(brand))?.brand;
  return TEXT.browserOn(brand, platform).slice(0, 64);
}
