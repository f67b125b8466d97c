// Folds stay as they were left, also when a page of rows goes and comes back.

/** @param {Element} row */
const foldsIn = (row) => [...row.querySelectorAll("details")];

/** @param {HTMLElement} place @param {string} session @param {AbortSignal} signal */
export const keepFolds = (place, session, signal) => {
  const name = `folds ${session}`;
  const known = JSON.parse(sessionStorage.getItem(name) ?? "{}");
  // The event does not bubble.
  place.addEventListener("toggle", (event) => {
    const fold = /** @type {HTMLDetailsElement} */ (event.target);
    const row = fold.closest("[data-item]");
    if (!row) return;
    known[`${row.id}/${foldsIn(row).indexOf(fold)}`] = fold.open;
    sessionStorage.setItem(name, JSON.stringify(known));
  }, { capture: true, signal });
  // On paper nothing can be unfolded.
  /** @type {HTMLDetailsElement[]} */
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...place.querySelectorAll("details:not([open])")];
    for (const fold of unfolded) fold.open = true;
  }, { signal });
  addEventListener("afterprint", () => {
    for (const fold of unfolded) fold.open = false;
  }, { signal });
  return {
    /** @param {Element} rows */
    restore: (rows) => {
      for (const row of rows.querySelectorAll("[data-item]")) {
        foldsIn(row).forEach((fold, at) => {
          const open = known[`${row.id}/${at}`];
          if (open !== undefined) fold.open = open;
        });
      }
    },
    /** @param {boolean} open */
    all: (open) => {
      for (const fold of place.querySelectorAll("details:not(.rest)")) /** @type {HTMLDetailsElement} */ (fold).open = open;
    },
  };
};
