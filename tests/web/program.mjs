// Starts the program with fresh state and stops it.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** The account of all tests. */
export const NAME = "ada";
export const PASSWORD = "a long evening by the fire";

/** How long a step waits for what must come. Only a failure takes that long: test machines may be slow or busy. */
export const MAX_WAIT_SECONDS = 200;

/** Resolves with the first truthy result of `check`; rejects with `condition` after `seconds`. */
export async function waitUntil(condition, check, seconds = MAX_WAIT_SECONDS) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const result = await check();
    if (result) return result;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
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

/** Starts `hearthcast demo` with a home folder of its own. */
export async function startDemo(binary) {
  const home = mkdtempSync(join(tmpdir(), "hearthcast-web-"));
  const port = await freePort();
  const environment = { PATH: process.env.PATH, HOME: home, HEARTHCAST_LOG: process.env.HEARTHCAST_LOG ?? "info" };
  const program = startProcess(binary, ["demo", "--listen", `127.0.0.1:${port}`], environment);
  const link = await program.waitForOutput(/http:\S+setup\S+/);
  const media = join(home, ".cache/hearthcast/demo/media");
  let others = 0; // Further servers that were started.
  return {
    link,
    base: new URL(link).origin,
    media,
    pid: program.pid,
    output: program.output,
    /** Resolves when all sample media exist. */
    whenMediaReady: () => waitUntil("the sample media exist", () => program.output().includes("By the Fire"), 240),
    /** Generates a file of the library with ffmpeg; returns its path. */
    makeMedia(name, args) {
      const path = join(media, name);
      mkdirSync(dirname(path), { recursive: true });
      execFileSync("ffmpeg", ["-nostdin", "-v", "error", "-y", ...args, path]);
      return path;
    },
    /** Writes a text file to the media folder. */
    writeMedia(name, text) {
      mkdirSync(dirname(join(media, name)), { recursive: true });
      writeFileSync(join(media, name), text);
    },
    /** Starts another server with the same media and account. */
    async startSecond(args, settings = {}) {
      others += 1;
      const state = join(home, `second-${others}`);
      if (settings.HEARTHCAST_RECORDINGS) mkdirSync(settings.HEARTHCAST_RECORDINGS, { recursive: true });
      execFileSync(binary, ["user", "add", NAME, "--admin", "--password-stdin", "--state", state], { env: environment, input: `${PASSWORD}\n` });
      const other = startProcess(binary, ["serve", "--listen", "127.0.0.1:0", "--state", state, "--root", media, ...args],
        { ...environment, HEARTHCAST_CACHE: join(home, `second-cache-${others}`), ...settings });
      const base = (await other.waitForOutput(/listening on (http:\S+)/)).slice("listening on ".length);
      const path = new URL(settings.HEARTHCAST_PUBLIC_BASE_URL ?? base).pathname.replace(/\/$/, "");
      return { base: base + path, media, output: other.output, stop: other.stop };
    },
    /** Starts another server, without media folders and accounts. */
    async startEmpty() {
      const state = join(home, "empty");
      const other = startProcess(binary, ["serve", "--listen", "127.0.0.1:0", "--state", state], environment);
      const link = await other.waitForOutput(/http:\S+setup\S+/);
      return { link, base: new URL(link).origin, output: other.output, stop: other.stop };
    },
    /** Stops it with SIGTERM, as systemd does; returns its exit code. */
    async stop() {
      const code = await program.stop();
      rmSync(home, { recursive: true, force: true });
      return code;
    },
  };
}

/** Starts a process and collects its output. */
function startProcess(binary, args, env) {
  const child = spawn(binary, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let exit = null;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => { output = (output + piece).slice(-200_000); });
  child.on("exit", (code, signal) => { exit = { code, signal }; });
  return {
    pid: child.pid,
    output: () => output,
    waitForOutput: (pattern) => waitUntil(`the program prints ${pattern}`, () => {
      if (exit) throw new Error(`the program ended: ${JSON.stringify(exit)}\n${output}`);
      return output.match(pattern)?.[0];
    }),
    async stop() {
      child.kill("SIGTERM");
      await waitUntil("the program ends after SIGTERM", () => exit, 15).catch(() => child.kill("SIGKILL"));
      return exit?.code ?? null;
    },
  };
}
