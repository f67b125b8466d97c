// The turns of a session: the list beside the transcript, and where in it one is.
import { element, fragment, html } from "./dom.js";

/** The turn that an event is in: its place in the list, -1 before the first. Pure.
 * @param {{ first_seq: number }[]} turns @param {number} seq */
export const turnAt = (turns, seq) => turns.findLastIndex((turn) => turn.first_seq <= seq);

/** The next of `seqs` after one, or the one before it. Pure. @param {number[]} seqs @param {number} seq @param {number} by */
export const nextOf = (seqs, seq, by) => (by > 0 ? seqs.find((one) => one > seq) : seqs.findLast((one) => one < seq));

/** What the turns until an event cost. Pure. @param {{ last_seq: number, cost: number | null }[]} turns @param {number} seq */
export const costUntil = (turns, seq) => turns.reduce((sum, turn) => (turn.last_seq <= seq ? sum + (turn.cost ?? 0) : sum), 0);

/** A span of time in few words. Pure. @param {number} ms */
export const spanText = (ms) => {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
};

/** A large number as people say it: 4.1 M. Pure. @param {number} number */
export const amountText = (number) => {
  const [unit, letter] = number >= 1e6 ? [1e6, " M"] : number >= 1e3 ? [1e3, " k"] : [1, ""];
  const shown = number / unit;
  return `${shown.toFixed(unit > 1 && shown < 100 ? 1 : 0)}${letter}`;
};

/** What is said of a turn. Pure. @param {import("./session.js").Turn} turn */
export const turnNumbers = (turn) =>
  [
    turn.state && turn.state !== "ended" ? turn.state : "",
    turn.took_ms ? spanText(turn.took_ms) : "",
    turn.tools ? `${turn.tools} ${turn.tools === 1 ? "tool" : "tools"}` : "",
    turn.tokens ? `${amountText(turn.tokens)} tokens` : "",
    turn.cost ? `$${turn.cost.toFixed(2)}` : "",
  ].filter(Boolean).join(" · ");

/** @param {HTMLElement} aside what scrolls @param {HTMLElement} place @param {(seq: number) => string} address */
export const outlineOf = (aside, place, address) => {
  /** @type {Element | null} */
  let current = null;
  /** @type {HTMLElement[]} */
  let links = [...place.querySelectorAll("a[data-seq]")];
  const row = (/** @type {import("./session.js").Turn} */ turn) => html`<li value="${turn.number}" class="${turn.state}"><a href="${address(turn.first_seq)}" data-seq="${turn.first_seq}"><span class="title" dir="auto">${turn.title || "(nothing said)"}</span>${turn.failures ? html`<span class="bad">✕${turn.failures}</span>` : ""}<span class="numbers">${turnNumbers(turn)}</span></a></li>`;
  return {
    /** Show turns; of those that are there, the last one may have gone on. @param {import("./session.js").Turn[]} turns */
    show: (turns) => {
      const last = links.length - 1;
      if (links.length && links.length === turns.length) {
        const item = element(row(turns[last]));
        const hadFocus = document.activeElement === links[last];
        links[last].parentElement?.replaceWith(item);
        links[last] = /** @type {HTMLElement} */ (item.firstElementChild);
        if (hadFocus) links[last].focus();
        return;
      }
      place.replaceChildren(fragment(html`<ol>${turns.map(row)}</ol>`));
      links = [...place.querySelectorAll("a[data-seq]")];
    },
    /** Mark a turn as the one that is read. @param {number} at */
    mark: (at) => {
      const link = links[at];
      if (!link || link === current) return;
      current?.removeAttribute("aria-current");
      current = link;
      link.setAttribute("aria-current", "true");
      const [box, seen] = [link.getBoundingClientRect(), aside.getBoundingClientRect()];
      if (box.top < seen.top || box.bottom > seen.bottom) aside.scrollTop += box.top - seen.top - seen.height / 2;
    },
  };
};
