// What opens beside the transcript: one event, what the model saw, the tree of forks.
import { say, toast } from "./app.js";
import { ask, parsed } from "./asking.js";

const PATHS = { event: "event", context: "context", tree: "tree" };

/**
 * @param {{ place: HTMLElement, base: string, scope: string, signal: AbortSignal,
 *   turnHere: () => number, changed: (params: Record<string, string | null>) => void }} how
 */
export const drawer = ({ place, base, scope, signal, turnHere, changed }) => {
  let opened = "";
  let asked = 0;
  /** @type {Element | null} */
  let returnTo = null;
  const load = async (/** @type {string} */ kind, /** @type {Record<string, string>} */ params) => {
    const query = new URLSearchParams({ scope, ...params });
    asked += 1;
    const own = asked;
    place.classList.add("waiting");
    const answer = await ask(`${base}/${PATHS[kind]}?${query}`, signal);
    // Another was asked for since, or none any more.
    if (own !== asked) return false;
    place.classList.remove("waiting");
    if (!answer.ok) {
      toast(`This could not be read (${answer.status}). Is the server still running?`);
      return false;
    }
    place.replaceChildren(...parsed(answer.text));
    place.setAttribute("aria-labelledby", "beside-title");
    return true;
  };
  const open = async (/** @type {string} */ kind, /** @type {Record<string, string>} */ params = {}) => {
    if (!(kind in PATHS)) return;
    if (!opened) returnTo = document.activeElement;
    const given = kind === "context" && !params.turn ? { turn: String(turnHere()) } : params;
    if (!(await load(kind, given))) return;
    opened = kind;
    place.hidden = false;
    place.closest(".columns")?.classList.add("is-open");
    changed({ open: kind, turn: kind === "context" ? given.turn : null, ...(kind === "event" ? { event: params.event, seq: null } : {}) });
    const title = /** @type {HTMLElement | null} */ (place.querySelector("h2"));
    if (title) {
      title.tabIndex = -1;
      title.focus({ preventScroll: true });
    }
  };
  const close = () => {
    asked += 1;
    place.classList.remove("waiting");
    if (!opened) return false;
    opened = "";
    place.hidden = true;
    place.closest(".columns")?.classList.remove("is-open");
    place.replaceChildren();
    changed({ open: null, turn: null });
    if (returnTo instanceof HTMLElement && returnTo.isConnected) returnTo.focus({ preventScroll: true });
    return true;
  };
  const verify = async (/** @type {HTMLElement} */ button) => {
    const said = place.querySelector(".verified");
    if (said) said.textContent = "Verifying …";
    const answer = await ask(button.dataset.verify ?? "", signal);
    const found = JSON.parse(answer.text || '{"message": "the server does not answer"}');
    const text = !answer.ok ? found.message : found.intact ? `verified ✓ ${found.events.toLocaleString("en")} events` : "broken: see treering verify";
    if (said) {
      said.textContent = text;
      said.className = `verified ${answer.ok && found.intact ? "good" : "bad"}`;
    }
    say(text);
  };
  place.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("[data-close]")) close();
    const button = /** @type {HTMLElement | null} */ (target.closest("[data-verify]"));
    if (button) verify(button);
    if (target.closest("[data-payload]")) {
      const id = new URLSearchParams(location.search).get("event") ?? "";
      load("event", { event: id, payload: "true" });
    }
    const copy = /** @type {HTMLElement | null} */ (target.closest("[data-copy-text]"));
    if (copy) {
      const text = [...place.querySelectorAll(copy.dataset.copyText ?? "")].map((one) => one.textContent).join("\n");
      navigator.clipboard.writeText(text).then(() => toast("Copied."), () => toast("The browser does not let us copy."));
    }
  }, { signal });
  place.addEventListener("change", (event) => {
    const field = /** @type {HTMLInputElement} */ (event.target);
    if (field.id === "saw-turn" && field.value) open("context", { turn: field.value });
  }, { signal });
  return { open, close, kind: () => opened };
};
