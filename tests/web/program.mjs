// Starts the program on fresh state and ends it again.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Who is signed in everywhere. */
export const NAME = "ada";
export const PASSWORD = "a long evening by the fire";

/** Resolves when `check` gives something; rejects with `what` after `seconds`. */
export async function until(what, check, seconds = 60) {
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
  const environment = { PATH: process.env.PATH, HOME: home, HEARTHCAST_LOG: process.env.HEARTHCAST_LOG ?? "info" };
  const program = launch(binary, ["demo", "--listen", `127.0.0.1:${port}`], environment);
  const link = await program.says(/http:\S+setup\S+/);
  const media = join(home, ".cache/hearthcast/demo/media");
  return {
    link,
    base: new URL(link).origin,
    media,
    said: program.said,
    /** Resolves when every sample is made. */
    ready: () => until("the samples are made", () => program.said().includes("By the Fire"), 240),
    /** A file of the library drawn or sung by ffmpeg; gives its path. */
    make(name, args) {
      const path = join(media, name);
      mkdirSync(dirname(path), { recursive: true });
      execFileSync("ffmpeg", ["-nostdin", "-v", "error", "-y", ...args, path]);
      return path;
    },
    /** A text beside the media. */
    write(name, text) {
      mkdirSync(dirname(join(media, name)), { recursive: true });
      writeFileSync(join(media, name), text);
    },
    /** Another server over the same media, with the account of this one: its base address, and how to stop it. */
    async second(args, settings = {}) {
      const state = join(home, "second");
      if (settings.HEARTHCAST_RECORDINGS) mkdirSync(settings.HEARTHCAST_RECORDINGS, { recursive: true });
      execFileSync(binary, ["user", "add", NAME, "--admin", "--password-stdin", "--state", state], { env: environment, input: `${PASSWORD}\n` });
      const other = launch(binary, ["serve", "--listen", "127.0.0.1:0", "--state", state, "--root", media, ...args],
        { ...environment, HEARTHCAST_CACHE: join(home, "second-cache"), ...settings });
      const base = (await other.says(/listening on (http:\S+)/)).slice("listening on ".length);
      const path = new URL(settings.HEARTHCAST_PUBLIC_BASE_URL ?? base).pathname.replace(/\/$/, "");
      return { base: base + path, media, said: other.said, stop: other.stop };
    },
    /** Ends it as systemd would; gives its exit code. */
    async stop() {
      const code = await program.stop();
      rmSync(home, { recursive: true, force: true });
      return code;
    },
  };
}

/** A process, and what it says. */
function launch(binary, args, env) {
  const child = spawn(binary, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let exit = null;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => { said = (said + piece).slice(-200_000); });
  child.on("exit", (code, signal) => { exit = { code, signal }; });
  return {
    said: () => said,
    says: (wanted) => until(`the program says ${wanted}`, () => {
      if (exit) throw new Error(`the program ended: ${JSON.stringify(exit)}\n${said}`);
      return said.match(wanted)?.[0];
    }),
    async stop() {
      child.kill("SIGTERM");
      await until("the program ends after SIGTERM", () => exit, 15).catch(() => child.kill("SIGKILL"));
      return exit?.code ?? null;
    },
  };
}
