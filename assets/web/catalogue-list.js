// A list of the catalogue, loaded page by page until it is complete. Lists that were shown before are shown at once and loaded again.

/** Pages of one list at most: 200 entries each. */
const MAX_PAGES = 100;

/** Lists to keep for Back. */
const MAX_KEPT = 6;

/** How often a page is requested, and the time between, ms. */
const ATTEMPTS = 5;
const RETRY_MS = 2000;

/**
 * @typedef {object} Page
 * @property {Array<{ id: string }>} entries
 * @property {number} total
 * @property {string | null} nextCursor
 * @property {boolean} scanning
 */

/** What is known of lists, by key; the least recently shown one is dropped first. @type {Map<string, { entries: object[], total: number }>} */
const keptLists = new Map();

export class CatalogueList {
  /**
   * @param {string} key  the same for the same kind, order and filters
   * @param {(cursor: string | null) => Promise<Page>} loadPage
   * @param {() => void} onChange  after each page, and after other changes
   * @param {AbortSignal} signal
   */
  constructor(key, loadPage, onChange, signal) {
    this.key = key;
    this.loadPage = loadPage;
    this.onChange = onChange;
    this.signal = signal;
    this.isComplete = false;
    this.isScanning = false;
    this.generation = 0;
    /** @type {Array<(value?: unknown) => void>} */
    this.waiting = [];
    const { entries = [], total = 0 } = keptLists.get(key) ?? {};
    this.entries = entries;
    this.total = total;
  }

  /** Resolves when there is something to show; the rest follows. Rejects if the first page cannot be loaded. */
  async open() {
    const loading = this.load();
    if (this.entries.length > 0) loading.catch(() => {});
    else await loading;
  }

  /** Loads all pages; what is shown is replaced as they arrive. Resolves after the first one. */
  async load() {
    const generation = ++this.generation;
    const known = new Map(this.entries.map((entry) => [entry.id, entry]));
    const page = await this.loadPage(null);
    if (this.isOver(generation)) return;
    const loaded = [];
    this.add(loaded, page, known);
    this.loadRest(page.nextCursor, { loaded, known, generation });
  }

  async loadRest(cursor, { loaded, known, generation }) {
    for (let pages = 1; cursor && pages < MAX_PAGES; pages += 1) {
      const page = await this.loadWithRetries(cursor, generation);
      if (!page || this.isOver(generation)) return;
      this.add(loaded, page, known);
      cursor = page.nextCursor;
    }
    this.isComplete = true;
    this.update(loaded, cursor ? this.total : loaded.length);
  }

  /** A page; null when it cannot be loaded, or need not be any more. */
  async loadWithRetries(cursor, generation) {
    for (let attempt = 0; attempt < ATTEMPTS && !this.isOver(generation); attempt += 1) {
      const page = await this.loadPage(cursor).catch(() => null);
      if (page) return page;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    return null;
  }

  isOver(generation) {
    return this.signal.aborted || generation !== this.generation;
  }

  /** Adds a page to those loaded before. Entries that did not change stay the same objects, so their elements stay too. */
  add(loaded, page, known) {
    for (const entry of page.entries) {
      const old = known.get(entry.id);
      loaded.push(old && JSON.stringify(old) === JSON.stringify(entry) ? old : entry);
    }
    this.isScanning = page.scanning;
    this.update([...loaded, ...this.entries.slice(loaded.length)], page.total);
  }

  /** Replaces one entry, if the list has it. */
  replace(entry) {
    if (this.entries.some(({ id }) => id === entry.id)) this.update(this.entries.map((old) => (old.id === entry.id ? entry : old)), this.total);
  }

  update(entries, total) {
    [this.entries, this.total] = [entries, total];
    keptLists.delete(this.key);
    keptLists.set(this.key, { entries, total });
    if (keptLists.size > MAX_KEPT) keptLists.delete(keptLists.keys().next().value);
    this.onChange();
    for (const wake of this.waiting.splice(0)) wake();
  }

  /** Resolves with the index of the first entry that matches, -1 without one, as soon as it is loaded. */
  async find(matches) {
    for (;;) {
      const index = this.entries.findIndex(matches);
      if (index >= 0 || this.isComplete || this.signal.aborted) return index;
      await new Promise((resolve) => this.waiting.push(resolve));
    }
  }
}

// They have the progress of the user who signed in.
addEventListener("user-changed", () => keptLists.clear());
