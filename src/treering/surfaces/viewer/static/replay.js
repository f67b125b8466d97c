// A replay: the session event by event, as it was recorded.

const STEP_MS = 700;

/**
 * @param {{ main: HTMLElement, pages: import("./list.js").PageList, last: () => number,
 *   told: (seq: number) => string, ended: () => void, changed: (params: Record<string, string | null>) => void, signal: AbortSignal }} how
 */
export const replay = ({ main, pages, last, told, ended, changed, signal }) => {
  const get = (/** @type {string} */ id) => /** @type {HTMLElement} */ (main.querySelector(`#${id}`));
  const bar = get("player");
  const scrub = /** @type {HTMLInputElement} */ (get("scrub"));
  let at = 0;
  let timer = 0;
  let shows = 0;
  const rows = () => /** @type {HTMLElement[]} */ ([...pages.place.querySelectorAll("[data-seq]")]);
  const hide = () => {
    for (const row of rows()) {
      row.classList.toggle("later", at > 0 && Number(row.dataset.seq) > at);
      row.classList.toggle("now", Number(row.dataset.seq) === at);
    }
    for (const group of pages.place.querySelectorAll(".group")) {
      const first = /** @type {HTMLElement | null} */ (group.querySelector("[data-seq]"));
      group.classList.toggle("later", at > 0 && Number(first?.dataset.seq) > at);
      if (at > 0 && group.querySelector(".now")) /** @type {HTMLDetailsElement} */ (group).open = true;
    }
  };
  const show = async (/** @type {number} */ seq) => {
    at = Math.min(Math.max(seq, 1), last());
    shows += 1;
    const own = shows;
    const row = await pages.row(at);
    // Another step was taken since, or the replay has ended.
    if (!row || signal.aborted || own !== shows) return;
    at = Number(row.dataset.seq);
    hide();
    row.scrollIntoView({ block: "center" });
    // One row is marked: the one that the replay is at.
    for (const old of pages.place.querySelectorAll(".aimed")) old.classList.remove("aimed");
    if (document.activeElement?.closest("[data-item]")) row.focus({ preventScroll: true });
    scrub.value = String(at);
    get("replayed").textContent = told(at);
    changed({ at: String(at) });
  };
  const step = async (/** @type {number} */ by) => {
    const seqs = rows().map((row) => Number(row.dataset.seq));
    const next = by > 0 ? seqs.find((seq) => seq > at) : seqs.findLast((seq) => seq < at);
    await show(next ?? at + by);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    get("play").textContent = "Play";
  };
  const play = () => {
    if (timer) return stop();
    get("play").textContent = "Pause";
    timer = setInterval(() => (at >= last() ? stop() : step(1)), STEP_MS);
  };
  const start = (/** @type {number} */ seq) => {
    bar.hidden = false;
    scrub.max = String(last());
    return show(seq);
  };
  const end = () => {
    stop();
    shows += 1;
    at = 0;
    hide();
    bar.hidden = true;
    changed({ at: null });
    ended();
  };
  signal.addEventListener("abort", stop);
  get("play").addEventListener("click", play, { signal });
  get("step").addEventListener("click", () => step(1), { signal });
  get("step-back").addEventListener("click", () => step(-1), { signal });
  get("stop").addEventListener("click", end, { signal });
  scrub.addEventListener("input", () => show(Number(scrub.value)), { signal });
  return { start, end, step, play, hide, isOn: () => at > 0 };
};
