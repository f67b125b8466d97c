// Three small tools for all modules: HTML that escapes, a value that tells, a list by keys.

/** HTML that is safe to insert: made by `html` only. */
export class Html {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };

/** @param {unknown} value @returns {string} */
const safe = (value) => {
  if (value instanceof Html) return value.text;
  if (value === null || value === undefined || value === false) return "";
  if (Array.isArray(value)) return value.map(safe).join("");
  return String(value).replace(/[&<>"']/g, (one) => ENTITIES[one]);
};

/**
 * HTML from a template: what is put into it is escaped, unless it is `Html`. Attributes must be
 * quoted in the template.
 * @param {TemplateStringsArray} strings @param {...unknown} values
 */
export const html = (strings, ...values) =>
  new Html(strings.reduce((text, part, at) => text + safe(values[at - 1]) + part));

/** The elements of `Html`, as a fragment. @param {Html} markup */
export const fragment = (markup) => {
  if (!(markup instanceof Html)) throw new TypeError("not made by html");
  const template = document.createElement("template");
  template.innerHTML = markup.text;
  return template.content;
};

/** The one element of `Html`. @param {Html} markup @returns {HTMLElement} */
export const element = (markup) => /** @type {HTMLElement} */ (fragment(markup).firstElementChild);

/**
 * A value that tells when it changes: call it to read, `set` to write, `on` to be told.
 * @template T @param {T} value
 */
export const signal = (value) => {
  const listeners = new Set();
  const read = () => value;
  read.set = (/** @type {T} */ next) => {
    if (Object.is(next, value)) return;
    value = next;
    for (const listener of listeners) listener(value);
  };
  read.on = (/** @type {(value: T) => void} */ listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return read;
};

/**
 * Which steps turn one list of keys into another: keys to take away, and for each place the key
 * that belongs there. Pure, so that it can be tested without a page.
 * @param {string[]} before @param {string[]} after
 */
export const keySteps = (before, after) => {
  const wanted = new Set(after);
  const removed = before.filter((key) => !wanted.has(key));
  const kept = before.filter((key) => wanted.has(key));
  const moves = [];
  after.forEach((key, at) => {
    if (kept[at] === key) return;
    const from = kept.indexOf(key);
    if (from >= 0) kept.splice(from, 1);
    kept.splice(at, 0, key);
    moves.push({ key, at });
  });
  return { removed, moves };
};

/**
 * Make the children of `parent` those of `fresh`, by their data-key: what stays is not touched
 * (focus, folds and selection stay with it) unless its HTML differs.
 * @param {Element} parent @param {Element[]} fresh
 */
export const keyedList = (parent, fresh) => {
  const key = (/** @type {Element} */ child) => child.getAttribute("data-key") ?? "";
  const present = new Map([...parent.children].map((child) => [key(child), child]));
  const coming = new Map(fresh.map((child) => [key(child), child]));
  const { removed, moves } = keySteps([...present.keys()], [...coming.keys()]);
  for (const name of removed) present.get(name)?.remove();
  for (const { key: name, at } of moves) {
    const child = present.get(name) ?? coming.get(name);
    if (child) parent.insertBefore(child, parent.children[at] ?? null);
  }
  for (const [name, child] of coming) {
    const old = present.get(name);
    if (old && old.isConnected && !old.isEqualNode(child)) {
      const focused = old.contains(document.activeElement);
      old.replaceWith(child);
      if (focused) /** @type {HTMLElement | null} */ (child.querySelector("a, button"))?.focus();
    }
  }
};
