// A transcript of any length: all its pages have a place, and those near the window have rows.

/** The page that an event is on. Pure. @param {number} seq @param {number} size */
export const pageOf = (seq, size) => Math.max(0, Math.floor((seq - 1) / size));

/** Which pages to fill: those that are seen, and one before and behind. Pure.
 * @param {number} first @param {number} last @param {number} count */
export const pagesNear = (first, last, count) => {
  const near = [];
  for (let page = Math.max(0, first - 1); page <= Math.min(count - 1, last + 1); page += 1) near.push(page);
  return near;
};

/** Which filled pages to empty so that at most `most` are left: the farthest first. Pure.
 * @param {number[]} filled @param {number[]} near @param {number} most */
export const pagesToEmpty = (filled, near, most) => {
  const middle = (near[0] + near[near.length - 1]) / 2;
  const far = filled.filter((page) => !near.includes(page));
  far.sort((one, two) => Math.abs(two - middle) - Math.abs(one - middle));
  return far.slice(0, Math.max(0, filled.length - most));
};

const FILLED_MAX = 6;
const ROW_GUESS = 46;

/** @param {Element} row */
const keyOf = (row) => row.id || row.querySelector("[id]")?.id || "";

/** The rows of a transcript in their pages. */
export class PageList {
  /**
   * @param {HTMLElement} place holds the rows of the first page that is shown
   * @param {{ size: number, last: number, page: number, fetchRows: (page: number) => Promise<Node[] | null>,
   *   filled: (rows: Element) => void}} how
   */
  constructor(place, how) {
    this.place = place;
    this.how = how;
    /** @type {Map<number, Promise<void>>} */
    this.filling = new Map();
    const section = this.section();
    section.append(...place.childNodes);
    section.dataset.filled = "yes";
    const height = place.getBoundingClientRect().height || 0;
    this.guess = Math.max(section.children.length * ROW_GUESS, 400, height);
    place.append(section);
    /** @type {HTMLElement[]} */
    this.sections = [];
    const count = pageOf(how.last, how.size) + 1;
    for (let page = 0; page < count; page += 1) this.sections.push(page === how.page ? section : this.emptied(this.section(), this.guess));
    section.before(...this.sections.slice(0, how.page));
    section.after(...this.sections.slice(how.page + 1));
    how.filled(section);
  }

  section() {
    const section = document.createElement("div");
    section.className = "page";
    return section;
  }

  /** @param {HTMLElement} section @param {number} height */
  emptied(section, height) {
    section.replaceChildren();
    section.style.height = `${Math.round(height)}px`;
    delete section.dataset.filled;
    return section;
  }

  /** Fill what is seen, empty what is far. */
  update() {
    const near = pagesNear(this.at(0), this.at(innerHeight), this.sections.length);
    for (const page of near) this.fill(page);
    const filled = this.sections.flatMap((section, page) => (section.dataset.filled ? [page] : []));
    for (const page of pagesToEmpty(filled, near, FILLED_MAX)) {
      const section = this.sections[page];
      if (!section.contains(document.activeElement)) this.emptied(section, section.getBoundingClientRect().height);
    }
  }

  /** The page at a height of the window: found by halving. @param {number} y */
  at(y) {
    let [low, high] = [0, this.sections.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.sections[middle].getBoundingClientRect().bottom > y) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** @param {number} page */
  fill(page) {
    const section = this.sections[page];
    if (!section || section.dataset.filled) return Promise.resolve();
    const known = this.filling.get(page);
    if (known) return known;
    const filling = this.how
      .fetchRows(page)
      .then((rows) => {
        if (!rows) return;
        section.replaceChildren(...rows);
        section.dataset.filled = "yes";
        section.style.height = "";
        this.how.filled(section);
        // Its height is known now: others may have come near, and some are far.
        requestAnimationFrame(() => this.place.isConnected && this.update());
      })
      .finally(() => this.filling.delete(page));
    this.filling.set(page, filling);
    return filling;
  }

  /** The row of an event, or the one that holds it. @param {number} seq @returns {Promise<HTMLElement | null>} */
  async row(seq) {
    const page = pageOf(seq, this.how.size);
    await this.fill(page);
    /** @type {HTMLElement[]} */
    const rows = [...this.sections[page].querySelectorAll("[data-seq]")];
    return rows.findLast((row) => Number(row.dataset.seq) <= seq) ?? rows[0] ?? null;
  }

  /** Take in events that were added at the end; says whether that was possible. @param {number} last */
  async grow(last) {
    const page = pageOf(last, this.how.size);
    const stale = Math.min(pageOf(this.how.last, this.how.size), this.sections.length - 1);
    while (this.sections.length <= page) {
      const section = this.emptied(this.section(), 0);
      this.sections.push(section);
      this.place.append(section);
    }
    for (let at = stale; at <= page; at += 1) {
      const section = this.sections[at];
      if (at === stale && !section.dataset.filled) continue;
      const rows = await this.how.fetchRows(at);
      if (!rows) return false;
      this.patch(section, rows);
    }
    this.how.last = last;
    return true;
  }

  /** Make rows those of `fresh`: what is the same is not touched. @param {HTMLElement} section @param {Node[]} fresh */
  patch(section, fresh) {
    const holder = this.section();
    holder.append(...fresh);
    this.how.filled(holder);
    const old = new Map([...section.children].map((row) => [keyOf(row), row]));
    const rows = [...holder.children].map((row) => {
      const known = old.get(keyOf(row));
      return known && known.isEqualNode(row) ? known : row;
    });
    rows.forEach((row, at) => {
      if (section.children[at] !== row) section.insertBefore(row, section.children[at] ?? null);
    });
    while (section.childElementCount > rows.length) section.lastElementChild?.remove();
    section.dataset.filled = "yes";
    section.style.height = "";
  }
}
