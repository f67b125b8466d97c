// The search palette: what the search page finds, while one types; arrows choose, Enter opens at the event.
import { fetchPage, navigate } from "./app.js";
import { element, html } from "./dom.js";

const PAUSE_MS = 180;

/** The place after a step among hits, round and round; pure. @param {number} at @param {number} step @param {number} count */
export const stepped = (at, step, count) => (count ? (at + step + count) % count : -1);

/** The address of a search here. @param {string} query @param {string} mode @param {string} here */
export const searchAddress = (query, mode, here) => {
  const asked = new URLSearchParams({ q: query, mode });
  const scope = new URLSearchParams(here).get("scope");
  if (scope) asked.set("scope", scope);
  return `/search?${asked}`;
};

/** Open the palette at once: keys that follow, Escape too, are meant for it. */
export const openPalette = () => {
  if (document.querySelector("dialog.palette")) return;
  const dialog = /** @type {HTMLDialogElement} */ (
    element(html`<dialog class="palette" aria-label="Search everything">
<form role="search"><input id="palette-query" role="combobox" aria-expanded="false" aria-controls="palette-results"
 aria-label="Search everything" placeholder="Search everything" autocomplete="off" spellcheck="false">
<select id="palette-mode" aria-label="How to search"><option value="words">Words</option>
<option value="hybrid">Words and meaning</option><option value="semantic">Meaning</option></select></form>
<div class="results"><div class="told" role="status"></div><div id="palette-results" aria-label="Hits"></div></div>
<p class="keys-line"><kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> open · <kbd>Esc</kbd> close</p></dialog>`)
  );
  const field = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
  const mode = /** @type {HTMLSelectElement} */ (dialog.querySelector("select"));
  const results = /** @type {HTMLElement} */ (dialog.querySelector("#palette-results"));
  const told = /** @type {HTMLElement} */ (dialog.querySelector(".told"));
  let asking = new AbortController();
  let timer = 0;
  let at = -1;

  const hits = () => /** @type {HTMLAnchorElement[]} */ ([...results.querySelectorAll("[data-hit]")]);
  const choose = (/** @type {number} */ next) => {
    at = next;
    hits().forEach((hit, index) => hit.setAttribute("aria-selected", String(index === at)));
    const chosen = hits()[at];
    if (chosen) field.setAttribute("aria-activedescendant", chosen.id);
    else field.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  };
  const ask = async () => {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    dialog.classList.add("waiting");
    const page = await fetchPage(searchAddress(field.value, mode.value, location.search), signal).catch(() => null);
    if (signal.aborted) return;
    dialog.classList.remove("waiting");
    const found = page?.querySelector("#hits");
    // A list box holds groups of options; the link to a whole session is for the mouse.
    const groups = [...(found?.querySelectorAll(".found > li") ?? [])].map((session) => {
      const heading = session.querySelector(".of");
      const link = heading?.querySelector("a");
      link?.setAttribute("tabindex", "-1");
      heading?.setAttribute("aria-hidden", "true");
      const group = element(html`<div class="hits-of" role="group" aria-label="${link?.textContent}"></div>`);
      group.append(heading ?? "", ...session.querySelectorAll("[data-hit]"));
      return group;
    });
    found?.querySelector(".found")?.remove();
    results.replaceChildren(...groups);
    told.replaceChildren(...(found ? found.childNodes : ["The server does not answer."]));
    hits().forEach((hit, index) => {
      hit.id = `hit-${index}`;
      hit.tabIndex = -1;
      hit.setAttribute("role", "option");
    });
    const isFound = hits().length > 0;
    if (isFound) results.setAttribute("role", "listbox");
    else results.removeAttribute("role");
    field.setAttribute("aria-expanded", String(isFound));
    choose(isFound ? 0 : -1);
  };
  const soon = () => {
    // What is shown is of an earlier text.
    dialog.classList.add("waiting");
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  };

  const openChosen = async () => {
    clearTimeout(timer);
    if (dialog.classList.contains("waiting")) await ask();
    if (!dialog.open || dialog.classList.contains("waiting")) return;
    const chosen = hits()[at];
    dialog.close();
    navigate(chosen ? (chosen.getAttribute("href") ?? "/") : searchAddress(field.value, mode.value, location.search));
  };

  field.addEventListener("input", soon);
  mode.addEventListener("change", ask);
  dialog.querySelector("form")?.addEventListener("submit", (event) => event.preventDefault());
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(stepped(at, event.key === "ArrowDown" ? 1 : -1, hits().length));
    } else if (event.key === "Enter" && event.target === field) {
      event.preventDefault();
      openChosen();
    }
  });
  dialog.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (target === dialog || target.closest("a[href]")) dialog.close();
  });
  dialog.addEventListener("close", () => {
    asking.abort();
    clearTimeout(timer);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  ask();
};
