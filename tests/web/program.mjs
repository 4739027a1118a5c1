// Starts the program on fresh state and ends it again.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Resolves when `check` gives something; rejects with `what` after `seconds`. */
export async function until(what, check, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const freePort = () => new Promise((resolve, reject) => {
  const server = createServer();
  server.on("error", reject);
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** `hearthcast demo` in a home of its own: its base address, its one-time link, and how to stop it. */
export async function demo(binary) {
  const home = mkdtempSync(join(tmpdir(), "hearthcast-web-"));
  const port = await freePort();
  const environment = { PATH: process.env.PATH, HOME: home, HEARTHCAST_LOG: "warn" };
  const child = spawn(binary, ["demo", "--listen", `127.0.0.1:${port}`], { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let exit = null;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => { said += piece; });
  child.on("exit", (code, signal) => { exit = { code, signal }; });
  const link = await until("the demo prints its link", () => {
    if (exit) throw new Error(`the demo ended: ${JSON.stringify(exit)}\n${said}`);
    return said.match(/http:\S+setup\S+/)?.[0];
  });
  const media = join(home, ".cache/hearthcast/demo/media");
  return {
    link,
    base: new URL(link).origin,
    media,
    said: () => said,
    /** Resolves when every sample is made. */
    ready: () => until("the samples are made", () => said.includes("By the Fire"), 240),
    /** A file of the library drawn or sung by ffmpeg; gives its path. */
    make(name, args) {
      const path = join(media, name);
      mkdirSync(dirname(path), { recursive: true });
      execFileSync("ffmpeg", ["-nostdin", "-v", "error", "-y", ...args, path]);
      return path;
    },
    /** Ends it as systemd would; gives its exit code. */
    async stop() {
      child.kill("SIGTERM");
      await until("the demo ends after SIGTERM", () => exit, 15).catch(() => child.kill("SIGKILL"));
      rmSync(home, { recursive: true, force: true });
      return exit?.code ?? null;
    },
  };
}
