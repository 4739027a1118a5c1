// A mocked guide of 1,000 channels with a programme every half hour for seven days, as the server would send it.

const HALF = 1_800_000;

const programme = (channel, n) => ({
  id: `${channel}-${n}`, channelId: channel, title: `Programme ${n % 97}`, description: "", start: new Date(n * HALF).toISOString(),
  end: new Date((n + 1) * HALF).toISOString(), iconUrl: "", season: null, episode: null, subtitle: null,
});

/** Mocks the guide's requests; sets `dataAt` and `paintedAt` in the page when its data arrives and is painted, ms. */
export async function mockThousandChannels(page) {
  await page.route("**/api/livetv/channels*", (route) => route.fulfill({ json: {
    channels: Array.from({ length: 1000 }, (_, n) => ({ id: n + 1, number: n + 1, name: `Channel ${n + 1}`, logoUrl: "", now: null, next: null, state: "idle", viewers: 0 })),
  } }));
  await page.route("**/api/livetv/epg*", (route) => {
    const query = new URL(route.request().url()).searchParams;
    const [from, to] = ["from", "to"].map((name) => Math.floor(Date.parse(query.get(name)) / HALF));
    const ids = query.get("channelIds").split(",").map(Number);
    return route.fulfill({ json: { entries: ids.flatMap((id) => Array.from({ length: to - from }, (_, n) => programme(id, from + n))) } });
  });
  await page.addInitScript(() => {
    const originalFetch = window.fetch;
    window.fetch = async (...call) => {
      const response = await originalFetch(...call);
      if (!String(call[0]).includes("/epg") || window.dataAt) return response;
      const text = await response.text();
      window.dataAt ??= performance.now();
      return new Response(text, { status: response.status, headers: response.headers });
    };
    new MutationObserver((_, observer) => {
      if (!document.querySelector(".cell")) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => { window.paintedAt = performance.now(); }));
    }).observe(document, { childList: true, subtree: true });
  });
}
