// The frame: pages by their addresses without loading anew, keys, theme, help, and the screens' modules.
import * as actions from "./actions.js";
import { element, html } from "./dom.js";
import * as home from "./home.js";
import * as login from "./login.js";
import { openPalette } from "./palette.js";
import * as session from "./session.js";

/** All of them come with the page, so that a screen is ready as soon as it is shown: keys and clicks do not wait. */
const MODULES = { actions, home, login, session };
const root = document.documentElement;
const THEMES = ["auto", "light", "dark"];
let leaving = new AbortController();
let going = new AbortController();
let letter = 0;

const main = () => /** @type {HTMLElement} */ (document.querySelector("#main"));

/** Say something to those who listen to the page. @param {string} text */
export const say = (text) => {
  const place = document.querySelector("#said");
  if (place) place.textContent = text;
};

/** Show a short message until the next click or key, however long somebody reads. @param {string} text */
export const toast = (text) => {
  document.querySelector(".toast")?.remove();
  const shown = element(html`<p class="toast">${text}</p>`);
  document.body.append(shown);
  say(text);
  for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => shown.remove(), { capture: true, once: true });
};

const mount = () => {
  leaving.abort();
  leaving = new AbortController();
  for (const name of (main().dataset.modules ?? "").split(" ").filter(Boolean)) MODULES[name].mount(main(), leaving.signal);
};

/** Fetch a page of ours. @param {string} url @param {AbortSignal} signal */
export const fetchPage = async (url, signal) => {
  const answer = await fetch(url, { signal, headers: { accept: "text/html" } });
  if (answer.status === 401) location.reload();
  return new DOMParser().parseFromString(await answer.text(), "text/html");
};

/** Add a style sheet, unless it is here. @param {string} href */
const addStyle = (href) => {
  if (document.querySelector(`link[href="${CSS.escape(href)}"]`)) return Promise.resolve();
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  document.head.append(link);
  return new Promise((done) => {
    link.addEventListener("load", done);
    link.addEventListener("error", done);
  });
};

/** Add the style sheets of a page that are not here yet. @param {Document} page */
const addStyles = (page) =>
  Promise.all([...page.querySelectorAll("link[rel=stylesheet]")].map((one) => addStyle(one.getAttribute("href") ?? "")));

/** @param {Document} page */
const show = (page) => {
  document.title = page.title;
  for (const part of [".places", "#live", "#main"]) {
    const here = document.querySelector(part);
    const there = page.querySelector(part);
    if (here && there) here.replaceWith(document.adoptNode(there));
  }
};

/**
 * Go to an address of ours: what was shown stays, greyed, until the new page is there.
 * @param {string} url @param {{ replace?: boolean, top?: number, keepFocus?: boolean }} [how]
 */
export const navigate = async (url, { replace = false, top, keepFocus = false } = {}) => {
  going.abort();
  going = new AbortController();
  const { signal } = going;
  main().classList.add("waiting");
  let page;
  try {
    page = await fetchPage(url, signal);
    await addStyles(page);
  } catch (error) {
    if (signal.aborted) return;
    main().classList.remove("waiting");
    toast("The server does not answer. Start it again with: treering view");
    throw error;
  }
  if (signal.aborted) return;
  if (!page.querySelector("#main")) {
    location.assign(url);
    return;
  }
  if (top === undefined) {
    if (!replace) history.replaceState({ ...history.state, top: scrollY }, "");
    history[replace ? "replaceState" : "pushState"]({ top: 0 }, "", url);
  }
  const focused = keepFocus ? document.activeElement?.id : "";
  show(page);
  mount();
  const hash = new URL(url, location.href).hash.slice(1);
  const target = hash ? document.getElementById(hash) : null;
  if (target) target.scrollIntoView();
  else if (!keepFocus || top !== undefined) scrollTo(0, top ?? 0);
  const field = focused ? document.getElementById(focused) : null;
  if (field) field.focus();
  else {
    const heading = /** @type {HTMLElement} */ (main().querySelector("h1") ?? main());
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
  say(page.title);
};

/** @param {string} href */
const isOurs = (href) => {
  const url = new URL(href, location.href);
  return url.origin === location.origin && !url.pathname.startsWith("/v1/") && !url.pathname.startsWith("/static/");
};

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = /** @type {Element} */ (event.target);
  const copied = target.closest("[data-copy]");
  if (copied) {
    const text = copied.getAttribute("data-copy") ?? "";
    navigator.clipboard.writeText(text).then(() => toast(`Copied ${text}`), () => toast(text));
    return;
  }
  const link = target.closest("a[href]");
  if (!link || link.hasAttribute("download") || link.getAttribute("target")) return;
  const href = link.getAttribute("href") ?? "";
  if (href.startsWith("#") || !isOurs(href)) return;
  event.preventDefault();
  navigate(href);
});

/** The address that a form asks for, without what was left blank. @param {HTMLFormElement} form */
const addressOf = (form) => {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) query.append(name, String(value));
  const text = query.toString();
  return form.getAttribute("action") + (text ? `?${text}` : "");
};

document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (event.defaultPrevented || form.method !== "get" || !form.hasAttribute("action")) return;
  event.preventDefault();
  navigate(addressOf(form), { keepFocus: true });
});

document.addEventListener("change", (event) => {
  const form = /** @type {Element} */ (event.target).closest("form[data-instant]");
  if (form) navigate(addressOf(/** @type {HTMLFormElement} */ (form)), { keepFocus: true });
});

addEventListener("popstate", (event) => {
  // The address is that of another page already: the one that is shown must not write to it.
  leaving.abort();
  if (event.state) navigate(location.href, { top: event.state.top ?? 0 });
});

// Keys.

/** The keys that help lists: those of the frame, then those of the screen that is shown. */
const FRAME_KEYS = [
  ["Ctrl K", "search everything"],
  ["/", "filter or find on this screen"],
  ["t", "change the theme"],
  ["?", "this list"],
  ["Esc", "close what is open"],
];

const help = () => {
  const places = [...document.querySelectorAll("nav a[data-letter]")].map((link) => [
    `g ${link.getAttribute("data-letter")}`,
    `go to ${link.textContent}`,
  ]);
  const own = JSON.parse(main().dataset.keys ?? "[]");
  const rows = [...own, ...FRAME_KEYS.slice(0, 2), ...places, ...FRAME_KEYS.slice(2)];
  openDialog(html`<dialog aria-labelledby="help-title"><h2 id="help-title">Keyboard</h2>
<ul class="keys">${rows.map(([keys, what]) => html`<li>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)} ${what}</li>`)}</ul>
<menu><button type="button" value="close">Close</button></menu></dialog>`);
};

/**
 * Show a dialog until a button with a value is pressed; resolves to that value, "" if it is left.
 * @param {import("./dom.js").Html} markup @returns {Promise<string>}
 */
export const openDialog = (markup) => {
  const dialog = /** @type {HTMLDialogElement} */ (element(markup));
  document.body.append(dialog);
  dialog.addEventListener("click", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const button = /** @type {HTMLButtonElement | null} */ (target.closest("button[value]"));
    if (button && button.type === "button") dialog.close(button.value);
    else if (target === dialog) dialog.close("");
  });
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(dialog.returnValue);
    });
  });
};

const changeTheme = () => {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
  root.dataset.theme = next;
  document.cookie = `treering-theme=${next}; path=/; max-age=31536000; samesite=strict`;
  const name = document.querySelector("#theme .roomy");
  if (name) name.textContent = next[0].toUpperCase() + next.slice(1);
  say(`Theme: ${next}`);
};

/** @param {EventTarget | null} target */
const isTyping = (target) => target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() - letter < 1500) {
    letter = 0;
    const link = document.querySelector(`nav a[data-letter="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      navigate(link.getAttribute("href") ?? "/");
      return;
    }
  }
  if (event.key === "g") letter = Date.now();
  else if (event.key === "?") help();
  else if (event.key === "t") changeTheme();
  else if (event.key === "/") {
    const field = /** @type {HTMLElement | null} */ (main().querySelector("[data-find]"));
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
});

document.querySelector("#theme")?.addEventListener("click", changeTheme);
document.querySelector("#help")?.addEventListener("click", help);
document.querySelector("#find")?.addEventListener("click", openPalette);

history.scrollRestoration = "manual";
history.replaceState({ top: history.state?.top ?? 0, ...history.state }, "");
if (location.hash.startsWith("#token=")) login.useFragment();
mount();
if (history.state?.top) scrollTo(0, history.state.top);
