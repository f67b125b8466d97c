// Live events of one session: resumes where it was, also when the server was away for a while.

const WAITS_MS = [500, 1000, 2000, 4000, 8000];

/** How long to wait before the next attempt. Pure. @param {number} attempt from 0 */
export const waitOf = (attempt) => WAITS_MS[Math.min(attempt, WAITS_MS.length - 1)];

/**
 * Follow a session from where the page ends.
 * @param {{ scope: string, session: string, cursor: string, kinds: string[], signal: AbortSignal,
 *   heard: (header: { seq: number, kind: string }) => void,
 *   state: (name: "live" | "waiting") => void }} how
 */
export const follow = ({ scope, session, cursor, kinds, signal, heard, state }) => {
  let attempt = 0;
  /** @type {EventSource | null} */
  let stream = null;
  let waiting = 0;
  const address = () => {
    const query = new URLSearchParams({ session_id: session, after: cursor });
    return `/v1/scopes/${encodeURIComponent(scope)}/stream?${query}`;
  };
  const take = (/** @type {MessageEvent} */ message) => {
    if (message.lastEventId) cursor = message.lastEventId;
    heard(JSON.parse(message.data));
  };
  const open = () => {
    stream = new EventSource(address());
    stream.onopen = () => {
      attempt = 0;
      state("live");
    };
    stream.onerror = () => {
      state("waiting");
      // A stream that was refused does not come back by itself.
      if (stream?.readyState !== EventSource.CLOSED) return;
      waiting = setTimeout(again, waitOf(attempt));
      attempt += 1;
    };
    // A stream names each event by its kind.
    for (const kind of kinds) stream.addEventListener(kind, take);
  };
  const again = async () => {
    if (signal.aborted) return;
    const answer = await fetch("/v1/whoami").catch(() => null);
    if (signal.aborted) return;
    // Another start of the server has another token: the page leads to the login.
    if (answer?.status === 401) location.reload();
    else open();
  };
  signal.addEventListener("abort", () => {
    clearTimeout(waiting);
    stream?.close();
  });
  open();
};
