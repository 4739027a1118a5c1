// The four sizes at which the page is tested, and how each presses: with a mouse, or with a finger.

import { waitUntil } from "./program.mjs";

export const SIZES = {
  desk: { viewport: { width: 1280, height: 800 } },
  phone: { viewport: { width: 390, height: 844 }, isTouch: true },
  side: { viewport: { width: 844, height: 390 }, isTouch: true },
  television: { viewport: { width: 1920, height: 1080 } },
};

/** Taps with a longer pause between them are two single taps. */
const DOUBLE_TAP_MS = 400;

/** How long a control may take to be pressed before it is tried again. */
const SHORT_TIMEOUT_MS = 2000;

/** Runs `run` in a signed-in window of each size, all at once, on `server`; each must have logged no error in the end. */
export async function atSizes({ server, page }, openPage, run) {
  const storageState = await page.context().storageState();
  await Promise.all(Object.entries(SIZES).map(async ([size, { viewport, isTouch = false }]) => {
    const kit = await openPage(`${size}-`, viewport, server, storageState, isTouch);
    await run({ ...kit, ...inputOf(kit, isTouch), size, isTouch });
    kit.assertClean();
    await kit.page.context().close();
  }));
}

/** Whether the whole of an element is in the window. */
export const isInWindow = (locator) => locator.evaluate((element) => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return right > left && left >= 0 && top >= 0 && right <= innerWidth + 0.5 && bottom <= innerHeight + 0.5;
});

function inputOf({ page, assertPressable }, isTouch) {
  const { width, height } = page.viewportSize();
  const isIdle = () => page.locator(".player").evaluate((element) => element.classList.contains("idle"));
  const tapVideo = (x, y) => page.touchscreen.tap(x * width, y * height);
  const press = (locator, options = {}) => (isTouch ? locator.tap(options) : locator.click(options));
  /** Shows the controls of the player, as a viewer does. */
  async function showControls() {
    if (!isTouch) return page.mouse.move(300 + 20 * Math.random(), 200);
    await waitUntil("the controls are shown", async () => {
      if (!(await isIdle())) return true;
      await tapVideo(0.5, 0.2); // Hides them if something else has just shown them.
      await page.waitForTimeout(DOUBLE_TAP_MS);
      return !(await isIdle());
    });
  }
  return {
    isIdle, tapVideo, showControls,
    pressLocator: press,

    /** Scrolls to an element as far as necessary, and presses it once it is on top at its centre: lists may be redrawn meanwhile. */
    async pressVisible(locator, what) {
      let fault = null;
      await waitUntil(`${what} can be pressed`, async () => {
        await locator.waitFor();
        if (!(await isInWindow(locator))) await locator.evaluate((element) => element.scrollIntoView({ block: "center" }));
        return assertPressable(locator, what).then(() => true, (error) => { fault = error; });
      }).catch((error) => { throw fault ?? error; });
      await press(locator);
    },

    /** Presses a button of the player's controls where the eye sees it, until `isDone`: on a busy machine the controls may hide meanwhile. */
    async pressControl(name, isDone) {
      const button = page.getByRole("button", { name, exact: true }).filter({ visible: true }).first();
      let fault = null;
      await waitUntil(`${name} is pressed`, async () => {
        if (await isDone()) return true;
        await showControls();
        await button.waitFor({ timeout: SHORT_TIMEOUT_MS }).then(() => assertPressable(button, name)).then(() => press(button, { timeout: SHORT_TIMEOUT_MS }))
          .catch((error) => { fault = error; });
        return isDone();
      }).catch((error) => { throw fault ?? error; });
    },
  };
}
