// Watches a player for a time.

import { mkdirSync } from "node:fs";
import { waitUntil } from "./program.mjs";

/** A player without progress for this time has stalled: longer than any of them takes between two progress reports. */
const STALL_SECONDS = 2.5;

/**
 * Starts a player in a folder of its own and watches it for `seconds` from its first progress. Returns the time until then, the
 * longest time without progress (both s), the number of stalls and the player's complaints. Rejects if it does not start within
 * `startSeconds`, ends, or makes no progress for 30 s. If `isFinite`, a process that has played to the end is no failure.
 */
export async function watch(start, source, folder, { seconds, startSeconds = 120, isFinite = false }) {
  mkdirSync(folder, { mode: 0o777 });
  const startedAt = Date.now();
  const player = await start(source, folder);
  try {
    const hasEnded = () => isFinite && player.hasEnded?.();
    const progress = async () => (hasEnded() ? Infinity : (await player.progress()) ?? 0);
    await waitUntil("the player plays", async () => (await progress()) > 0, startSeconds);
    const began = Date.now();
    let [last, since, longest, stalls] = [await progress(), began, 0, 0];
    while (Date.now() - began < seconds * 1000 && !hasEnded()) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      const now = await progress();
      if (now > last) {
        const stalledFor = (Date.now() - since) / 1000;
        longest = Math.max(longest, stalledFor);
        if (stalledFor > (player.stallSeconds ?? STALL_SECONDS)) stalls += 1;
        [last, since] = [now, Date.now()];
      }
      if (Date.now() - since > 30_000) throw new Error(`no progress for 30 s\n${player.complaints()}`);
    }
    const faults = (await player.verdict?.()) ?? [];
    return { startSeconds: (began - startedAt) / 1000, longest, stalls, faults, complaints: player.complaints() };
  } catch (fault) {
    fault.message += `\n${player.complaints().slice(-2000)}`;
    throw fault;
  } finally {
    await player.stop();
  }
}
