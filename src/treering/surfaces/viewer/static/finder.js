// Find a text in a session: the server says where, the page marks what it shows.

import { ask } from "./asking.js";

const RANGES_MAX = 1000;

/** What is said of the hits. Pure. @param {number} at from 0 @param {number} count @param {boolean} isAll */
export const hitsText = (at, count, isAll) => {
  if (!count) return isAll ? "not found" : "searching …";
  return `${at + 1} of ${count}${isAll ? "" : "+"}`;
};

/**
 * @param {{ main: HTMLElement, place: HTMLElement, base: string, scope: string, signal: AbortSignal,
 *   jump: (seq: number) => Promise<void>, changed: (params: Record<string, string | null>) => void }} how
 */
export const finder = ({ main, place, base, scope, signal, jump, changed }) => {
  const field = /** @type {HTMLInputElement} */ (main.querySelector("#find-text"));
  const said = /** @type {HTMLElement} */ (main.querySelector("#found"));
  /** @type {number[]} */
  let hits = [];
  let [word, at, isAll] = ["", -1, true];
  const mark = () => {
    if (!("highlights" in CSS)) return;
    CSS.highlights.delete("found");
    if (!word) return;
    /** @type {Range[]} */
    const ranges = [];
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < RANGES_MAX; node = walker.nextNode()) {
      const text = node.nodeValue?.toLowerCase() ?? "";
      for (let from = text.indexOf(word); from >= 0 && ranges.length < RANGES_MAX; from = text.indexOf(word, from + word.length)) {
        const range = new Range();
        range.setStart(node, from);
        range.setEnd(node, from + word.length);
        ranges.push(range);
      }
    }
    if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
  };
  const go = async (/** @type {number} */ to) => {
    if (!hits.length) return;
    at = (to + hits.length) % hits.length;
    said.textContent = hitsText(at, hits.length, isAll);
    const mine = word;
    await jump(hits[at]);
    if (word !== mine) return;
    for (const fold of place.querySelector(`#e${hits[at]}`)?.querySelectorAll("details") ?? []) {
      if (fold.textContent?.toLowerCase().includes(word)) fold.open = true;
    }
    mark();
    field.focus({ preventScroll: true });
  };
  const find = async (/** @type {string} */ text) => {
    [word, hits, at, isAll] = [text.trim().toLowerCase(), [], -1, false];
    changed({ find: word || null });
    if (!word) {
      said.textContent = "";
      mark();
      return;
    }
    const mine = word;
    let after = 0;
    while (!isAll && word === mine && !signal.aborted) {
      said.textContent = hitsText(Math.max(at, 0), hits.length, false);
      const query = new URLSearchParams({ scope, text: mine, after: String(after) });
      const answer = await ask(`${base}/find?${query}`, signal);
      if (!answer.ok || word !== mine) return;
      const found = JSON.parse(answer.text);
      hits.push(...found.hits);
      isAll = found.next_seq === null;
      after = found.next_seq ?? 0;
      if (at < 0 && hits.length) await go(0);
    }
    said.textContent = hitsText(Math.max(at, 0), hits.length, true);
  };
  const form = /** @type {HTMLElement} */ (main.querySelector("#finding"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim().toLowerCase() === word && hits.length) go(at + 1);
    else find(field.value);
  }, { signal });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      go(at - 1);
    } else if (event.key === "Escape") {
      field.value = "";
      find("");
      field.blur();
    }
  }, { signal });
  signal.addEventListener("abort", () => "highlights" in CSS && CSS.highlights.delete("found"));
  return { find, mark };
};
