// The session screen: pages of rows, turns, lanes, filters, find, live events, and keys.
import { navigate, say, toast } from "./app.js";
import { ask, parsed } from "./asking.js";
import { drawer } from "./drawer.js";
import { goOn } from "./filtered.js";
import { focusOf, lanes } from "./lanes.js";
import { PageList } from "./list.js";
import { costUntil, nextOf, outlineOf, turnAt } from "./outline.js";
import { finder } from "./finder.js";
import { keepFolds } from "./folds.js";
import { growth } from "./growth.js";
import { replay } from "./replay.js";

/** @typedef {import("./lanes.js").Span} Span */
/** @typedef {{ number: number, first_seq: number, last_seq: number, title: string, took_ms: number, tools: number, failures: number, tokens: number, cost: number | null, state: string }} Turn */
/** @typedef {{ last_seq: number, facts: string, turns: Turn[], failures: number[], you: Span[], model: Span[], tools: Span[], subagents: Span[], marks: [number, number, string][] }} SessionMap */

const KEYS = [
  ["j", "next turn"], ["k", "previous turn"], ["n", "next failure"], ["N", "previous failure"],
  ["e", "details of the event"], ["[", "fold all"], ["]", "unfold all"], ["c", "what the model saw"],
  ["o", "turns"], ["r", "replay"], ["→", "a step of the replay"], ["End", "the end"],
];
const MARGIN = 112;
const STILL_FRAMES = 8;

/** @param {HTMLElement} main @param {AbortSignal} signal */
export const mount = (main, signal) => {
  const root = /** @type {HTMLElement} */ (main.querySelector(".session"));
  const get = (/** @type {string} */ id) => /** @type {HTMLElement} */ (main.querySelector(`#${id}`));
  const { scope = "", session = "", base = "" } = root.dataset;
  const place = get("rows");
  const isWhole = place.dataset.show === "all";
  const last = () => grown.last();
  /** @type {SessionMap | null} */
  let map = JSON.parse(get("session-map")?.textContent || "null");
  let here = Number(root.dataset.target);
  main.dataset.keys = JSON.stringify(KEYS);
  get("pages")?.remove();
  
  const asked = new URLSearchParams(location.search);
  const changed = (/** @type {Record<string, string | null>} */ params, how = /** @type {"replaceState" | "pushState"} */ ("replaceState")) => {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries(params)) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    history[how]({ ...history.state, top: scrollY }, "", url);
  };

  const folds = keepFolds(place, session, signal);
  const undone = (/** @type {Element} */ rows) => {
    const turns = (map?.turns ?? []).filter((turn) => turn.state === "undone");
    for (const row of turns.length ? rows.querySelectorAll("[data-seq]") : []) {
      const seq = Number(/** @type {HTMLElement} */ (row).dataset.seq);
      row.classList.toggle("undone", turns.some((turn) => turn.first_seq <= seq && seq <= turn.last_seq));
    }
  };
  const localTimes = (/** @type {Element} */ rows) => {
    for (const time of rows.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.getAttribute("datetime") ?? "");
      time.textContent = at.toLocaleTimeString("en-GB");
      time.setAttribute("title", at.toLocaleString("en-GB"));
      time.setAttribute("data-local", "");
    }
  };
  const filled = (/** @type {Element} */ rows) => {
    localTimes(rows);
    folds.restore(rows);
    undone(rows);
    if (player?.isOn()) player.hide();
    search?.mark();
  };
  const fetchRows = async (/** @type {number} */ page) => {
    const answer = await ask(`${base}/rows?${new URLSearchParams({ scope, page: String(page) })}`, signal);
    return answer.ok ? parsed(answer.text) : null;
  };
  /** @type {ReturnType<typeof replay> | undefined} */
  let player;
  /** @type {ReturnType<typeof finder> | undefined} */
  let search;
  const pages = isWhole
    ? new PageList(place, { size: Number(root.dataset.pageEvents), last: Number(root.dataset.last), page: Number(root.dataset.page), fetchRows, filled })
    : null;
  if (!pages) {
    localTimes(place);
    goOn({ root, place, base, scope, filled, signal });
  }

  /** Scroll to a row again if others push it out of the window, until all around it is still. */
  const keepInView = (/** @type {HTMLElement} */ row, /** @type {ScrollLogicalPosition} */ block, /** @type {() => boolean} */ isWanted) => {
    let [top, still] = [NaN, 0];
    const look = () => {
      if (signal.aborted || !isHeld || !isWanted() || !row.isConnected) return;
      const box = row.getBoundingClientRect();
      if (box.bottom <= 0 || box.top >= innerHeight) row.scrollIntoView({ block });
      still = box.top === top && !pages?.filling.size ? still + 1 : 0;
      top = row.getBoundingClientRect().top;
      if (still < STILL_FRAMES) requestAnimationFrame(look);
    };
    look();
  };
  let jumps = 0;
  /** Go to an event, unless another jump begins before its row is here. */
  const jump = async (/** @type {number} */ seq, { mark = true, block = /** @type {ScrollLogicalPosition} */ ("start"), isGiven = false } = {}) => {
    if (!pages) return navigate(`${base}?${new URLSearchParams({ scope, seq: String(seq) })}`);
    jumps += 1;
    const own = jumps;
    const row = await pages.row(seq);
    if (!row || signal.aborted || own !== jumps) return;
    const group = /** @type {HTMLDetailsElement | null} */ (row.closest(".group"));
    if (group) group.open = true;
    row.scrollIntoView({ block });
    if (mark) {
      for (const old of place.querySelectorAll(".aimed")) old.classList.remove("aimed");
      row.classList.add("aimed");
      row.focus({ preventScroll: true });
    }
    here = seq;
    isHeld = true;
    // Most browsers hold a place while rows are filled in above it, once they have drawn it.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (signal.aborted) return;
      pages.update();
      keepInView(row, block, () => own === jumps);
    }));
    placed();
    // An address that names an event stays as it was given.
    if (!isGiven) remember();
  };
  // After a jump one is where one jumped to, and at the end one follows, until one scrolls by hand.
  let isHeld = false;
  const letGo = () => {
    isHeld = false;
    grown.letGo();
  };
  for (const name of ["wheel", "touchmove", "pointerdown"]) addEventListener(name, letGo, { passive: true, signal });

  const panel = drawer({ place: get("beside"), base, scope, signal, changed, turnHere: () => turnAt(map?.turns ?? [], here) + 1 });
  const strip = lanes(get("drawn"), /** @type {HTMLButtonElement} */ (get("unfocus")), {
    focus: focusOf(asked.get("focus")), go: jump, step: (by) => step(by), signal,
    narrowed: (focus) => changed({ focus }, "pushState"),
  });
  if (pages) {
    const told = (/** @type {number} */ seq) => {
      here = seq;
      letGo();
      isHeld = true;
      placed();
      return `event ${seq.toLocaleString("en")} of ${last().toLocaleString("en")} · $${costUntil(map?.turns ?? [], seq).toFixed(2)} so far`;
    };
    player = replay({ main, pages, last, told, ended: () => placed(), changed, signal });
    search = finder({ main, place, base, scope, signal, jump, changed });
  }

  const step = (/** @type {number} */ by) => {
    const seqs = (map?.turns ?? []).map((turn) => turn.first_seq);
    const at = Math.max(turnAt(map?.turns ?? [], here), 0);
    const next = by > 0 ? seqs[at + 1] : nextOf(seqs, seqs[at] ?? here, -1);
    if (next) jump(next);
    else say(by > 0 ? "This is the last turn." : "This is the first turn.");
  };
  const failure = (/** @type {number} */ by) => {
    const next = nextOf(map?.failures ?? [], here, by);
    if (next) jump(next);
    else toast(map?.failures.length ? `No ${by > 0 ? "later" : "earlier"} failure.` : "Nothing failed in this session.");
  };
  // Where one is: in the outline, on the lanes, and what it cost so far.
  const turnsList = outlineOf(get("outline"), get("turn-list"), (seq) => `${base}?${new URLSearchParams({ scope, seq: String(seq) })}`);
  const placed = () => {
    const turns = map?.turns ?? [];
    const at = Math.max(turnAt(turns, here), 0);
    turnsList.mark(at);
    strip.moveTo(here);
    const cost = costUntil(turns, turns[at]?.last_seq ?? 0);
    get("so-far").textContent = cost && !player?.isOn() ? `$${cost.toFixed(2)} so far` : "";
  };
  const outline = () => {
    if (!map) return;
    turnsList.show(map.turns);
    get("facts").textContent = map.facts;
    get("failed").hidden = !map.failures.length;
    const failed = get("failed").querySelector("[data-count]");
    if (failed) failed.textContent = String(map.failures.length);
    strip.show(map);
    undone(place);
    placed();
  };
  const readMap = async () => {
    const answer = await ask(`${base}/outline?${new URLSearchParams({ scope })}`, signal);
    if (!answer.ok) return;
    map = JSON.parse(answer.text);
    outline();
  };
  if (map) outline();
  else readMap();

  let waiting = 0;
  addEventListener("scroll", () => {
    if (waiting) return;
    waiting = requestAnimationFrame(() => {
      waiting = 0;
      if (!pages || signal.aborted) return;
      pages.update();
      const rows = /** @type {HTMLElement[]} */ ([...pages.sections[pages.at(MARGIN)].querySelectorAll("[data-seq]")]);
      const top = rows.find((row) => row.getBoundingClientRect().bottom > MARGIN && row.checkVisibility());
      if (top && !isHeld && Number(top.dataset.seq) !== here) {
        here = Number(top.dataset.seq);
        placed();
        remember();
      }
      grown.scrolled();
    });
  }, { passive: true, signal });
  let remembering = 0;
  const remember = () => {
    clearTimeout(remembering);
    remembering = setTimeout(() => signal.aborted || panel.kind() === "event" || changed({ seq: here > 1 ? String(here) : null, event: null, page: null }), 400);
  };

  const grown = growth({ root, newer: get("newer"), state: get("state"), pages, jump, readMap, signal });

  // Clicks that stay on this screen.
  main.addEventListener("click", (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const target = /** @type {Element} */ (event.target);
    const link = /** @type {HTMLAnchorElement | null} */ (target.closest("a[href]"));
    if (!link) return;
    const asked = new URL(link.href);
    const isHere = asked.pathname === location.pathname && asked.searchParams.get("scope") === scope;
    const opens = link.dataset.open ?? asked.searchParams.get("open");
    if (isHere && opens) {
      event.preventDefault();
      const id = asked.searchParams.get("event");
      panel.open(opens, id ? { event: id } : {});
    } else if (isHere && pages && asked.searchParams.get("seq") && !link.dataset.show) {
      event.preventDefault();
      get("outline").classList.remove("is-open");
      jump(Number(asked.searchParams.get("seq")));
    }
  }, { signal });
  get("failed").addEventListener("click", () => failure(1), { signal });
  get("replay").addEventListener("click", () => player?.start(here), { signal });
  const showTurns = () => {
    const isOpen = get("outline").classList.toggle("is-open");
    get("turns").setAttribute("aria-expanded", String(isOpen));
    if (isOpen) /** @type {HTMLElement | null} */ (get("outline").querySelector("a[aria-current], a"))?.focus();
  };
  get("turns").addEventListener("click", showTurns, { signal });

  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (/^(Page|Arrow|Home| )/.test(event.key)) letGo();
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input, textarea, select") || document.querySelector("dialog[open]")) return;
    const row = /** @type {HTMLElement | null} */ (document.activeElement?.closest("[data-seq]") ?? place.querySelector(`#e${here}`));
    const acts = {
      j: () => step(1), k: () => step(-1), n: () => failure(1), N: () => failure(-1),
      "[": () => folds.all(false), "]": () => folds.all(true), c: () => panel.open("context"), o: showTurns,
      r: () => (player?.isOn() ? player.end() : player?.start(here)),
      e: () => /** @type {HTMLElement | null} */ (row?.querySelector("a.when"))?.click(),
      End: () => get("newer").click(),
      Escape: () => panel.close() || get("outline").classList.remove("is-open") || (player?.isOn() && player.end()),
      ...(player?.isOn() ? { ArrowRight: () => player?.step(1), ArrowLeft: () => player?.step(-1), " ": () => player?.play() } : {}),
    };
    const act = acts[event.key];
    if (!act) return;
    if (event.key !== "Escape") event.preventDefault();
    act();
  }, { signal });

  // The place that the address names, when everything else is in place.
  requestAnimationFrame(() => {
    if (signal.aborted || !pages) return;
    if (root.dataset.aimed || here > 1) jump(here, { mark: Boolean(root.dataset.aimed), block: here >= last() ? "end" : "start", isGiven: true });
    else pages.update();
    if (asked.get("at")) player?.start(Number(asked.get("at")));
    if (asked.get("find")) search?.find(asked.get("find") ?? "");
  });
  root.dataset.ready = "yes";
  const opens = asked.get("open");
  if (opens) panel.open(opens, Object.fromEntries(["event", "turn"].flatMap((name) => (asked.get(name) ? [[name, asked.get(name)]] : []))));
};
