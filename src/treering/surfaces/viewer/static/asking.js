// Ask the server for something: who has left the page hears nothing more, not even a failure.

const TRIES = 4;
const PAUSE_MS = 400;

/** Whether to ask again: nobody answered, or the server had too much to do. Pure. @param {number} status */
export const isPassing = (status) => [0, 409, 429, 503].includes(status);

/**
 * @param {string} url @param {AbortSignal} signal
 * @returns {Promise<{ ok: boolean, status: number, text: string }>} status 0 if nobody answers
 */
export const ask = async (url, signal) => {
  let found = { ok: false, status: 0, text: "" };
  for (let attempt = 0; attempt < TRIES && !signal.aborted; attempt += 1) {
    if (attempt) await new Promise((done) => setTimeout(done, PAUSE_MS * attempt));
    try {
      const answer = await fetch(url, { signal });
      found = { ok: answer.ok, status: answer.status, text: await answer.text() };
    } catch {
      found = { ok: false, status: 0, text: "" };
    }
    if (!isPassing(found.status)) break;
  }
  return signal.aborted ? new Promise(() => {}) : found;
};

/** The elements of HTML that the server has made. @param {string} text */
export const parsed = (text) => [...new DOMParser().parseFromString(text, "text/html").body.childNodes];
