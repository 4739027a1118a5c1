// hls.js in Firefox, controlled by its Marionette protocol: a length in bytes, a colon, JSON.

import { connect } from "node:net";
import { join } from "node:path";
import { mkdirSync, writeFileSync } from "node:fs";
import { play, probe } from "./hls.mjs";
import { launch } from "./players.mjs";
import { waitUntil } from "./program.mjs";

export async function firefox(tv, folder) {
  const port = 50_000 + Math.floor(Math.random() * 10_000);
  const profile = join(folder, "profile");
  mkdirSync(profile);
  const preferences = { "marionette.port": port, "media.autoplay.default": 0, "media.volume_scale": "0.0" };
  const lines = Object.entries(preferences).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`);
  writeFileSync(join(profile, "user.js"), lines.join("\n"));
  const program = launch("firefox-esr", ["--headless", "--no-remote", "--profile", profile, "--marionette"], { HOME: folder });
  const socket = await waitUntil("firefox listens", () => new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(socket));
    socket.on("error", () => resolve(null));
  }));
  const waiting = new Map();
  let [buffer, lastId] = [Buffer.alloc(0), 0];
  socket.on("data", (piece) => {
    buffer = Buffer.concat([buffer, piece]);
    for (;;) {
      const colon = buffer.indexOf(":");
      const end = colon + 1 + Number(buffer.subarray(0, colon));
      if (colon < 0 || buffer.length < end) return;
      const message = JSON.parse(buffer.subarray(colon + 1, end));
      buffer = buffer.subarray(end);
      // The first message is the server's greeting.
      if (Array.isArray(message)) waiting.get(message[1])?.(message);
    }
  });
  const sendCommand = async (command, parameters = {}) => {
    program.running();
    const id = (lastId += 1);
    const text = JSON.stringify([0, id, command, parameters]);
    const answer = new Promise((resolve) => waiting.set(id, resolve));
    socket.write(`${Buffer.byteLength(text)}:${text}`);
    const [, , fault, result] = await answer;
    waiting.delete(id);
    if (fault) throw new Error(`${command}: ${fault.message}`);
    return result?.value;
  };
  const run = (script, args = []) => sendCommand("WebDriver:ExecuteScript", { script, args, sandbox: null });
  await sendCommand("WebDriver:NewSession", { capabilities: { alwaysMatch: { timeouts: { script: 60_000 } } } });
  await sendCommand("WebDriver:Navigate", { url: tv.base });
  /** Runs an asynchronous function of the page; returns its result. */
  const runAsync = async (pageFunction, args) => {
    const script = `const args = [...arguments], done = args.pop(); (${pageFunction})(...args).then((result) => done({ result }), (fault) => done({ fault: String(fault) }));`;
    const { result, fault } = await sendCommand("WebDriver:ExecuteAsyncScript", { script, args, sandbox: null });
    if (fault) throw new Error(fault);
    return result;
  };
  try {
    await runAsync(play, [tv.live ?? await tv.open(await runAsync(probe, []))]);
  } catch (fault) {
    await program.stop();
    throw fault;
  }
  return {
    ...program,
    progress: () => run("return window.watched()"),
    verdict: () => run("return window.faults"),
    stop: () => {
      socket.destroy();
      return program.stop();
    },
  };
}
