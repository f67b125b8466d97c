// Buttons that change something: they ask first, show what will happen, and say what has happened.
import { navigate, openDialog, toast } from "./app.js";
import { html } from "./dom.js";

/** @param {string} url @param {unknown} body */
const post = async (url, body) => {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(`${value.message}${value.hint ? ` (${value.hint})` : ""}`);
  return value;
};

/** The numbers of a preview that are not nothing, as lines. Pure. @param {Record<string, unknown>} preview */
export const previewLines = (preview) =>
  Object.entries(preview)
    .filter(([, value]) => typeof value === "number" && value > 0)
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`);

/** @param {HTMLElement} button */
const act = async (button) => {
  const { url = "", verb = "Do it", title = "", says = "", done = "Done." } = button.dataset;
  const body = JSON.parse(button.dataset.body ?? "{}");
  const field = button.dataset.ask;
  try {
    const preview = button.dataset.preview ? await post(url, { ...body, preview: true }) : {};
    let typed = "";
    const asking = openDialog(html`<dialog aria-labelledby="action-title"><h2 id="action-title">${title}</h2>
<p>${says}</p>
<ul>${previewLines(preview).map((line) => html`<li>${line}</li>`)}</ul>
${field ? html`<p class="row"><label class="grow"><span>${field}</span><input id="action-field"></label></p>` : ""}
<menu><button type="button" value="">Cancel</button>
<button type="button" class="${button.classList.contains("danger") ? "danger" : "main"}" value="yes">${verb}</button></menu></dialog>`);
    const input = /** @type {HTMLInputElement | null} */ (document.querySelector("#action-field"));
    input?.addEventListener("input", () => {
      typed = input.value;
    });
    if ((await asking) !== "yes") return;
    const sent = { ...body, ...(button.dataset.preview ? { preview: false } : {}), ...(typed ? { reason: typed } : {}) };
    await post(url, sent);
    toast(done);
    await navigate(button.dataset.then ?? location.href, { replace: true });
  } catch (error) {
    toast(`This did not work: ${error instanceof Error ? error.message : error}`);
  }
};

/** @param {HTMLElement} main @param {AbortSignal} signal */
export const mount = (main, signal) => {
  main.addEventListener(
    "click",
    (event) => {
      const button = /** @type {Element} */ (event.target).closest("button[data-action]");
      if (button) act(/** @type {HTMLElement} */ (button));
    },
    { signal },
  );
};
