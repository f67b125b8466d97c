// The turns of a session: the list beside the transcript, and where in it one is.
import { fragment, html } from "./dom.js";

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

/** What is said of a turn. Pure. @param {import("./session.js").Turn} turn */
export const turnNumbers = (turn) =>
  [
    turn.state && turn.state !== "ended" ? turn.state : "",
    turn.took_ms ? spanText(turn.took_ms) : "",
    turn.tools ? `${turn.tools} ${turn.tools === 1 ? "tool" : "tools"}` : "",
    turn.tokens ? turn.tokens.toLocaleString("en") : "",
    turn.cost ? `$${turn.cost.toFixed(2)}` : "",
  ].filter(Boolean).join(" · ");

/** @param {HTMLElement} aside what scrolls @param {HTMLElement} place @param {(seq: number) => string} address */
export const outlineOf = (aside, place, address) => {
  /** @type {Element | null} */
  let current = null;
  /** @type {HTMLElement[]} */
  let links = [...place.querySelectorAll("a[data-seq]")];
  return {
    /** @param {import("./session.js").Turn[]} turns */
    show: (turns) => {
      const count = place.querySelectorAll("li").length;
      if (count && count === turns.length) return;
      const rows = turns.map((turn) => html`<li value="${turn.number}" class="${turn.state}"><a href="${address(turn.first_seq)}" data-seq="${turn.first_seq}"><span class="title" dir="auto">${turn.title || "(nothing said)"}</span>${turn.failures ? html`<span class="bad">✕${turn.failures}</span>` : ""}<span class="numbers">${turnNumbers(turn)}</span></a></li>`);
      place.replaceChildren(fragment(html`<ol>${rows}</ol>`));
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
