// A token for a cookie: from the fragment of the address, which no log and no Referer has, or typed.

/** @param {string} text */
const tell = (text) => {
  const place = document.querySelector("#login-state");
  if (place) place.textContent = text;
};

/** @param {string} token @returns {Promise<boolean>} */
const login = async (token) => {
  const answer = await fetch("/v1/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (!answer.ok) {
    const problem = await answer.json();
    tell(`This token does not work: ${problem.message}. Run treering view again, or paste another.`);
  }
  return answer.ok;
};

/** Load the page again, as if by a link of our own: the browser then sends its cookie. */
const enter = () => location.replace(location.pathname + location.search);

/** Take the token out of the address, and log in with it. */
export const useFragment = async () => {
  const token = decodeURIComponent(location.hash.slice("#token=".length));
  history.replaceState(history.state, "", location.pathname + location.search);
  if (await login(token)) enter();
};

/** @param {HTMLElement} main @param {AbortSignal} signal */
export const mount = (main, signal) => {
  main.querySelector("#login")?.addEventListener(
    "submit",
    async (event) => {
      event.preventDefault();
      const field = /** @type {HTMLInputElement} */ (main.querySelector("[name=token]"));
      const pasted = field.value.trim();
      const token = pasted.includes("#token=") ? pasted.split("#token=")[1] : pasted;
      if (await login(decodeURIComponent(token))) enter();
      else field.select();
    },
    { signal },
  );
  // A link on another site leads here without the cookie; the browser may have a good one.
  if (location.hash || sessionStorage.getItem("entered") === location.href) return;
  fetch("/v1/whoami", { signal }).then((answer) => {
    if (!answer.ok) return;
    sessionStorage.setItem("entered", location.href);
    enter();
  }, () => {});
};
