// What a filter lets pass: more of it as one comes to the end of what is there.
import { ask, parsed } from "./asking.js";

/**
 * @param {{ root: HTMLElement, place: HTMLElement, base: string, scope: string,
 *   filled: (rows: Element) => void, signal: AbortSignal }} how
 */
export const goOn = ({ root, place, base, scope, filled, signal }) => {
  let next = root.dataset.next ?? "";
  let isBusy = false;
  const state = document.createElement("p");
  state.className = "muted small";
  place.after(state);
  const more = async () => {
    if (!next || isBusy || signal.aborted) return;
    isBusy = true;
    let count = 0;
    // A part of a long session may hold nothing that passes.
    while (next && !count && !signal.aborted) {
      state.textContent = `Looking further, from event ${Number(next).toLocaleString("en")} …`;
      const query = new URLSearchParams({ scope, show: place.dataset.show ?? "", after: next });
      const answer = await ask(`${base}/rows?${query}`, signal);
      if (!answer.ok) break;
      const found = JSON.parse(answer.text);
      const rows = document.createElement("div");
      rows.append(...parsed(found.rows));
      count = found.count;
      if (count) place.querySelector(".empty")?.remove();
      filled(rows);
      place.append(...rows.childNodes);
      next = found.next_seq === null ? "" : String(found.next_seq);
    }
    state.textContent = "";
    isBusy = false;
    if (next && state.getBoundingClientRect().top < innerHeight + 800) more();
  };
  filled(place);
  new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && more(), { rootMargin: "800px" }).observe(state);
};
