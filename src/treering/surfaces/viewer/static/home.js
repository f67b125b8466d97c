// Home, alive: when something is recorded, the list is asked for again and only what differs changes.
import { fetchPage } from "./app.js";
import { keyedList } from "./dom.js";

const PAUSE_MS = 1500;
/** What changes a row. */
const KINDS = [
  "session.opened",
  "session.forked",
  "session.titled",
  "session.closed",
  "run.started",
  "run.ended",
  "run.failed",
  "run.interrupted",
  "conversation.user",
  "conversation.assistant",
  "tool.result",
  "usage.reported",
  "ledger.redacted",
  "ledger.expired",
  "ledger.forgotten",
];

/** @param {HTMLElement} main @param {AbortSignal} signal */
export const mount = (main, signal) => {
  let timer = 0;
  const refresh = async () => {
    timer = 0;
    if (document.hidden) return;
    const page = await fetchPage(location.href, signal).catch(() => null);
    if (!page || signal.aborted) return;
    const rows = main.querySelector("#rows");
    const fresh = page.querySelector("#rows");
    if (rows && fresh) keyedList(rows, [...fresh.children]);
    for (const part of ["#totals", "#count", "#live"]) {
      const here = document.querySelector(part);
      const there = page.querySelector(part);
      if (here && there && !here.isEqualNode(there) && !here.querySelector("details[open]")) here.replaceWith(there);
    }
  };
  const soon = () => {
    timer ||= setTimeout(refresh, PAUSE_MS);
  };
  const scope = new URLSearchParams(location.search).get("scope");
  const path = scope ? `/v1/scopes/${encodeURIComponent(scope)}/stream` : "/v1/stream";
  const stream = new EventSource(`${path}?after=end`);
  // What was recorded before it was open, it does not tell.
  stream.onopen = soon;
  for (const kind of KINDS) stream.addEventListener(kind, soon);
  document.addEventListener("visibilitychange", soon, { signal });
  signal.addEventListener("abort", () => {
    stream.close();
    clearTimeout(timer);
  });
};
