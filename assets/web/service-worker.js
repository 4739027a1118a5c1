// The shell: all files of the page in one version, so that it opens at once and without the server. The API, media and players are
// never answered here.
//
// A document gets all its files from the version with which it was opened, also those that it imports later. When the server has another
// version, a new document comes from the server, with all its files, until the worker of that version is installed.

/** The scope of a worker, which TypeScript takes for a window. @type {any} */
const worker = self;

worker.importScripts("shell.js"); // From the server: `SHELL` with the version and the digest of each file. A change of it is an update.

/** @type {{ version: string, files: Record<string, string> }} */
const { version: VERSION, files: FILES } = worker.SHELL;

const CACHE = "hearthcast.shell ";
const CLIENTS = "hearthcast.clients";
const SCOPE = worker.registration.scope;

/** Instead of a version: all files of this document come from the server. */
const FROM_SERVER = "server";

/** The server is taken for unreachable after this time, ms. */
const TIMEOUT_MS = 1500;

worker.addEventListener("install", (event) => event.waitUntil(install()));
worker.addEventListener("activate", (event) => event.waitUntil(Promise.all([worker.clients.claim(), removeUnused()])));
worker.addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  if (method !== "GET" || !url.startsWith(SCOPE)) return;
  const path = url.slice(SCOPE.length).split("#")[0];
  if (mode === "navigate" && path === "") event.respondWith(openDocument(event));
  else if (path in FILES && path !== "") event.respondWith(serveFile(event, path));
});

/** Stores all files. It fails, and is tried again later, if one of them is of another version or cannot be loaded. */
async function install() {
  const cache = await caches.open(CACHE + VERSION);
  await Promise.all(Object.entries(FILES).map(async ([path, digest]) => {
    const response = await fetch(SCOPE + path, { cache: "no-cache" });
    if (!response.ok || (await digestOf(response.clone())) !== digest) throw new Error(`${path} is of another version`);
    await cache.put(SCOPE + path, response);
  }));
  await worker.skipWaiting(); // Documents that are open keep their version.
}

/** The digest of a body, as the server writes it. */
async function digestOf(response) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", await response.arrayBuffer())).slice(0, 15);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
}

/** A new document: of this version, unless the server has another one. */
async function openDocument({ request, resultingClientId }) {
  const serverVersion = await findServerVersion();
  const source = serverVersion === null || serverVersion === VERSION ? VERSION : FROM_SERVER;
  await (await caches.open(CLIENTS)).put(clientKey(resultingClientId), new Response(source));
  await removeUnused(resultingClientId);
  return (source === VERSION && (await matchFile(VERSION, ""))) || fetch(request);
}

async function serveFile({ request, clientId }, path) {
  const source = await sourceOf(clientId);
  return (source !== FROM_SERVER && (await matchFile(source, path))) || fetch(request);
}

const matchFile = async (version, path) => (await caches.open(CACHE + version)).match(SCOPE + path);

/** The server's version; null when it cannot be reached. */
async function findServerVersion() {
  try {
    const response = await fetch(`${SCOPE}web/shell.js`, { cache: "no-cache", signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? (await response.text()).match(/"version":"([^"]+)"/)?.[1] ?? null : null;
  } catch {
    return null;
  }
}

const clientKey = (id) => `${SCOPE}client/${id}`;

/** Where the files of a document come from. One that was open before there was a worker gets them from the server. */
async function sourceOf(clientId) {
  const found = clientId && (await (await caches.open(CLIENTS)).match(clientKey(clientId)));
  return found ? found.text() : FROM_SERVER;
}

/** Removes documents that are closed, and the versions that no document uses. */
async function removeUnused(openingId = "") {
  const open = new Set([openingId, ...(await worker.clients.matchAll({ includeUncontrolled: true })).map(({ id }) => id)]);
  const clients = await caches.open(CLIENTS);
  const used = new Set([CACHE + VERSION]);
  for (const key of await clients.keys()) {
    const id = key.url.slice(clientKey("").length);
    if (open.has(id)) used.add(CACHE + (await sourceOf(id)));
    else await clients.delete(key);
  }
  for (const name of await caches.keys()) if (name.startsWith(CACHE) && !used.has(name)) await caches.delete(name);
}
