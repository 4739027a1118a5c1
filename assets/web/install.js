// Registers the service worker of the shell. Browsers have one only with HTTPS, or on the same machine.

import { resolvePath } from "./api.js";

export async function installShell() {
  // A page that failed to register works without; it is tried again with the next load.
  await navigator.serviceWorker?.register(resolvePath("/web/service-worker.js"), { scope: resolvePath("/"), updateViaCache: "none" }).catch(() => {});
}
