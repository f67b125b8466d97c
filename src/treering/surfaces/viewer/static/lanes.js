// Time lanes: who was busy when. Long pauses are drawn short; what is not known is drawn open.
import { html, fragment } from "./dom.js";

/** @typedef {[number, number, number, boolean?, boolean?]} Span start, end, seq, bad, approximate */

const LANES = ["you", "model", "tools", "subagents"];
const HEIGHT = 16;
/** The share of a lane that a moment takes. */
const MOMENT = 0.0025;
/** A longer pause takes as much room as this. */
const PAUSE_MS = 60000;

/**
 * A scale of times on which pauses are short: `x(ms)` from 0 to 1, and `ms(x)`. Pure.
 * @param {[number, number][]} busy when something happened, in any order
 */
export const scaleOf = (busy) => {
  const edges = [...new Set(busy.flat())].sort((one, two) => one - two);
  if (!edges.length) return { x: () => 0, ms: () => 0, edges };
  const covered = [...busy].sort((one, two) => one[0] - two[0]);
  const places = [0];
  let at = 0;
  let reach = covered[0][1];
  for (let index = 1; index < edges.length; index += 1) {
    const [from, to] = [edges[index - 1], edges[index]];
    while (at < covered.length && covered[at][0] <= from) {
      reach = Math.max(reach, covered[at][1]);
      at += 1;
    }
    const isBusy = reach >= to;
    places.push(places[index - 1] + (isBusy ? to - from : Math.min(to - from, PAUSE_MS)));
  }
  const whole = places[places.length - 1] || 1;
  const between = (/** @type {number[]} */ here, /** @type {number[]} */ there, /** @type {number} */ value) => {
    let [low, high] = [0, here.length - 1];
    if (value <= here[0]) return there[0];
    if (value >= here[high]) return there[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (here[middle] <= value) low = middle;
      else high = middle;
    }
    const share = (value - here[low]) / (here[high] - here[low] || 1);
    return there[low] + share * (there[high] - there[low]);
  };
  return {
    x: (/** @type {number} */ ms) => between(edges, places, ms) / whole,
    ms: (/** @type {number} */ x) => between(places, edges, x * whole),
    edges,
  };
};

/** The event nearest to a time. Pure. @param {Span[]} spans @param {number} ms */
export const nearest = (spans, ms) => {
  let [best, distance] = [0, Infinity];
  for (const [start, end, seq] of spans) {
    const away = ms < start ? start - ms : ms > end ? ms - end : 0;
    if (away < distance) [best, distance] = [seq, away];
  }
  return best;
};

/** When an event happened, by the spans. Pure. @param {Span[]} spans by seq @param {number} seq */
export const timeOf = (spans, seq) => {
  let found = spans[0]?.[0] ?? 0;
  for (const span of spans) {
    if (span[2] > seq) break;
    found = span[0];
  }
  return found;
};

/** The spans of a part of the time. Pure. @param {Span[]} spans @param {[number, number] | null} focus */
export const within = (spans, focus) => (focus ? spans.filter(([start, end]) => end >= focus[0] && start <= focus[1]) : spans);

/** A part of the time as it stands in an address; null if it is none. Pure. @param {string | null} text @returns {[number, number] | null} */
export const focusOf = (text) => {
  const [start, end] = (text ?? "").split("-").map(Number);
  return start >= 0 && end > start ? [start, end] : null;
};

/** Where a span is drawn, from 0 to 1: wide enough to be seen, the last moment too. Pure.
 * @param {ReturnType<typeof scaleOf>} scale @param {number} start @param {number} end */
export const boxOf = (scale, start, end) => {
  const from = Math.min(scale.x(start), 1 - MOMENT);
  return [from, Math.max(scale.x(end), from + MOMENT)];
};

const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(3)}%`;

/** @param {import("./session.js").SessionMap} map @param {ReturnType<typeof scaleOf>} scale @param {[number, number] | null} focus */
const drawing = (map, scale, focus) => {
  const rows = LANES.map((name, lane) =>
    within(map[name], focus).map(([start, end, , bad, open]) => {
      const [from, to] = boxOf(scale, start, end);
      const kind = `${name}${bad ? " bad" : ""}${open ? " open" : ""}`;
      const y = lane * HEIGHT + 2;
      const box = html`<rect class="${kind}" x="${percent(from)}" y="${y}" width="${percent(to - from)}" height="${HEIGHT - 4}" rx="1"/>`;
      return bad ? html`${box}<text class="cross" x="${percent(to)}" dx="3" y="${y + 10}">✕</text>` : box;
    }),
  );
  const marks = map.marks
    .filter(([at]) => !focus || (at >= focus[0] && at <= focus[1]))
    .map(([at, , kind]) => {
      const x = percent(scale.x(at));
      return html`<line class="mark" x1="${x}" x2="${x}" y1="0" y2="${LANES.length * HEIGHT}"><title>${kind}</title></line>`;
    });
  return html`<svg width="100%" height="${LANES.length * HEIGHT}" aria-hidden="true">${rows}${marks}<line class="here" x1="0" x2="0" y1="0" y2="${LANES.length * HEIGHT}"/></svg>`;
};

/**
 * Draw the lanes; `go` is told the event that was chosen, `narrowed` the part of the time for the address.
 * @param {HTMLElement} place @param {HTMLButtonElement} whole
 * @param {{ focus: [number, number] | null, go: (seq: number) => void, step: (by: number) => void,
 *   narrowed: (focus: string | null) => void, signal: AbortSignal }} how
 */
export const lanes = (place, whole, { focus, go, step, narrowed, signal }) => {
  /** @type {import("./session.js").SessionMap | null} */
  let map = null;
  /** @type {Span[]} */
  let every = [];
  let scale = scaleOf([]);
  let here = 1;
  const draw = () => {
    if (!map) return;
    const seen = within([...every, ...map.subagents], focus);
    scale = scaleOf(seen.map(([start, end]) => (focus ? [Math.max(start, focus[0]), Math.min(end, focus[1])] : [start, end])));
    place.replaceChildren(fragment(drawing(map, scale, focus)));
    whole.hidden = !focus;
    moveTo(here);
  };
  const moveTo = (/** @type {number} */ seq) => {
    here = seq;
    const x = scale.x(timeOf(every, seq));
    const line = place.querySelector(".here");
    line?.setAttribute("x1", percent(x));
    line?.setAttribute("x2", percent(x));
    place.setAttribute("aria-valuenow", String(Math.round(x * 100)));
    place.setAttribute("aria-valuetext", `event ${seq}`);
  };
  const shareAt = (/** @type {PointerEvent} */ event) => {
    const box = place.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / (box.width || 1), 0), 1);
  };
  let from = -1;
  const chosen = document.createElement("div");
  chosen.className = "chosen";
  place.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    from = shareAt(event);
    place.setPointerCapture(event.pointerId);
  }, { signal });
  place.addEventListener("pointermove", (event) => {
    if (from < 0) return;
    const to = shareAt(event);
    chosen.style.left = percent(Math.min(from, to));
    chosen.style.width = percent(Math.abs(to - from));
    if (!chosen.isConnected) place.append(chosen);
  }, { signal });
  place.addEventListener("pointerup", (event) => {
    if (from < 0) return;
    const to = shareAt(event);
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    const isDrag = (high - low) * place.clientWidth > 6;
    from = -1;
    chosen.remove();
    if (!every.length) return;
    if (isDrag) {
      focus = [Math.floor(scale.ms(low)), Math.ceil(scale.ms(high))];
      draw();
      narrowed(focus.join("-"));
    }
    go(nearest(every, isDrag && focus ? focus[0] : scale.ms(low)));
  }, { signal });
  place.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    step(by);
  }, { signal });
  whole.addEventListener("click", () => {
    focus = null;
    draw();
    narrowed(null);
  }, { signal });
  return {
    moveTo,
    show: (/** @type {import("./session.js").SessionMap} */ next) => {
      map = next;
      every = LANES.slice(0, 3).flatMap((name) => next[name]).sort((one, two) => one[2] - two[2]);
      draw();
    },
  };
};
