// Buttons that change something: they ask first, show what will happen, and say what has happened.
import { fetchPage, navigate, openDialog, toast } from "./app.js";
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

/** What the server says will happen, with what to send for it. @param {string} url @returns {Promise<HTMLElement>} */
const planAt = async (url) => {
  const page = await fetchPage(url, new AbortController().signal);
  const plan = /** @type {HTMLElement | null} */ (page.querySelector("[data-body]"));
  if (!plan) throw new Error(page.querySelector(".notice")?.textContent ?? "the server does not answer");
  return plan;
};

/** @param {HTMLElement} button */
const act = async (button) => {
  const { url = "", verb = "Do it", title = "", says = "", done = "Done.", plan: planned, preview } = button.dataset;
  const body = JSON.parse(button.dataset.body ?? "{}");
  const field = button.dataset.ask;
  try {
    let plan = planned ? await planAt(planned) : null;
    const lines = preview ? previewLines(await post(url, { ...body, preview: true })) : [];
    if (document.querySelector("dialog[open]")) return;
    let typed = "";
    const asking = openDialog(html`<dialog aria-labelledby="action-title"><h2 id="action-title">${title}</h2>
<p>${says}</p><div id="action-plan"></div>
<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>
${field ? html`<p class="row"><label class="grow"><span>${field}</span><input id="action-field"></label></p>` : ""}
<menu><button type="button" value="">Cancel</button>
<button type="button" class="${button.classList.contains("danger") ? "danger" : "main"}" value="yes">${verb}</button></menu></dialog>`);
    const input = /** @type {HTMLInputElement | null} */ (document.querySelector("#action-field"));
    input?.addEventListener("input", () => {
      typed = input.value;
    });
    const place = /** @type {HTMLElement} */ (document.querySelector("#action-plan"));
    if (plan) place.append(plan);
    const confirm = /** @type {HTMLButtonElement | null} */ (document.querySelector("dialog button[value=yes]"));
    // Nothing is done that is not shown: another choice is shown before it can be confirmed.
    place.addEventListener("input", () => confirm?.setAttribute("disabled", ""));
    place.addEventListener("change", async (event) => {
      const choice = /** @type {HTMLInputElement} */ (event.target);
      const chosen = await planAt(`${planned}&${new URLSearchParams({ [choice.name]: choice.value })}`).catch(() => null);
      if (!chosen) return toast("The server does not answer.");
      plan = chosen;
      place.replaceChildren(chosen);
      confirm?.removeAttribute("disabled");
      /** @type {HTMLElement | null} */ (place.querySelector(`[name="${choice.name}"]`))?.focus();
    });
    if ((await asking) !== "yes") return;
    const sent = { ...body, ...(preview ? { preview: false } : {}), ...(typed ? { reason: typed } : {}) };
    await post(url, { ...sent, ...JSON.parse(plan?.dataset.body ?? "{}") });
    toast(done);
    const then = plan?.dataset.then ?? button.dataset.then;
    await navigate(then ?? location.href, { replace: !plan });
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
