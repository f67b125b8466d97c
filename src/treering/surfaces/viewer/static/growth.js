// A session that grows: at its end one follows it, elsewhere a marker counts what is new.
import { say } from "./app.js";
import { follow } from "./live.js";

/** Events without a row of their own. */
const QUIET = new Set(["tool.result", "run.started", "run.ended", "usage.reported", "context.assembled", "inbox.taken"]);
const PAUSE_MS = 120;
const AWAY_MS = 2000;
const LONG_EVENTS = 5000;

const isAtEnd = () => scrollY + innerHeight >= document.documentElement.scrollHeight - 60;

/** How long to wait before the turns are read again: those of a long session take a while. Pure. @param {number} events */
export const mapPause = (events) => (events > LONG_EVENTS ? 10000 : 1200);

/**
 * @param {{ root: HTMLElement, newer: HTMLElement, state: HTMLElement, pages: import("./list.js").PageList | null,
 *   jump: (seq: number, how: { block: ScrollLogicalPosition }) => Promise<void>, readMap: () => void, signal: AbortSignal }} how
 */
export const growth = ({ root, newer, state, pages, jump, readMap, signal }) => {
  const { scope = "", session = "", cursor = "end", kinds = "" } = root.dataset;
  let last = Number(root.dataset.last);
  let [fresh, growing, mapping] = [0, 0, 0];
  // Until one scrolls by hand.
  let isFollowing = !root.dataset.aimed && Number(root.dataset.target) >= last;
  const toEnd = () => {
    const scroll = () => signal.aborted || scrollTo(0, document.documentElement.scrollHeight);
    scroll();
    // Rows that come into view get their true heights.
    requestAnimationFrame(() => isFollowing && scroll());
  };
  // One at a time: an answer that comes late must not undo a later one.
  const grow = async () => {
    const [until, top, follows] = [last, scrollY, isFollowing || isAtEnd()];
    const isDone = pages ? await pages.grow(until) : true;
    if (signal.aborted) return;
    growing = 0;
    // Without its server it goes on when that is back.
    if (!isDone || last > until) soon(isDone ? PAUSE_MS : AWAY_MS);
    if (!isDone) return;
    mapping ||= setTimeout(() => {
      mapping = 0;
      if (!signal.aborted) readMap();
    }, mapPause(last));
    if (!pages) return;
    if (follows && scrollY >= top) {
      fresh = 0;
      toEnd();
    } else if (fresh) {
      newer.textContent = `${fresh} new ↓`;
      newer.hidden = false;
      say(`${fresh} new`);
    }
  };
  const soon = (/** @type {number} */ ms) => {
    growing ||= setTimeout(grow, ms);
  };
  follow({
    scope, session, cursor, kinds: kinds.split(" "), signal,
    heard: (header) => {
      if (header.seq <= last) return;
      last = header.seq;
      if (!QUIET.has(header.kind)) fresh += 1;
      if (header.kind.startsWith("run.")) {
        const isLive = header.kind === "run.started";
        state.dataset.state = isLive ? "running" : "open";
        state.textContent = isLive ? "● live" : "open";
      }
      soon(PAUSE_MS);
    },
    state: (name) => root.toggleAttribute("data-waiting", name === "waiting"),
  });
  newer.addEventListener("click", async () => {
    newer.hidden = true;
    fresh = 0;
    isFollowing = true;
    await jump(last, { block: "end" });
    toEnd();
  }, { signal });
  return {
    last: () => last,
    letGo: () => {
      isFollowing = false;
    },
    /** What is new has been seen at the end. */
    scrolled: () => {
      if (!isAtEnd()) return;
      newer.hidden = true;
      fresh = 0;
    },
  };
};
