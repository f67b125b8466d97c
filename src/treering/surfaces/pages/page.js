"use strict";
(() => {
  const root = document.documentElement;
  const main = document.querySelector("main");
  const field = document.querySelector("#search");
  const count = document.querySelector("#count");
  const expand = document.querySelector("#expand");
  const theme = document.querySelector("#theme");
  const items = [...main.querySelectorAll("[data-item]")];
  const turns = [...main.querySelectorAll("section.turn")];
  const groups = [...main.querySelectorAll(".group")];
  const texts = new Map();
  const opened = new Set();
  const RANGES_MAX = 2000;
  let at = -1;

  document.querySelector(".bar").hidden = false;

  const textOf = (item) => {
    if (!texts.has(item)) texts.set(item, item.textContent.toLowerCase());
    return texts.get(item);
  };

  const ranges = (item, word, found) => {
    const walker = document.createTreeWalker(item, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      for (let i = text.indexOf(word); i >= 0; i = text.indexOf(word, i + word.length)) {
        if (found.length >= RANGES_MAX || i + word.length > node.data.length) return;
        const range = new Range();
        range.setStart(node, i);
        range.setEnd(node, i + word.length);
        found.push(range);
      }
    }
  };

  const reveal = (item, word) => {
    for (const fold of [...item.querySelectorAll("details"), item.closest("details")]) {
      if (fold && !fold.open && fold.textContent.toLowerCase().includes(word)) {
        fold.open = true;
        opened.add(fold);
      }
    }
  };

  const search = () => {
    const word = field.value.trim().toLowerCase();
    const found = [];
    let shown = 0;
    for (const item of opened) item.open = false;
    opened.clear();
    for (const item of items) {
      const fits = !word || textOf(item).includes(word);
      item.hidden = !fits;
      if (!fits) continue;
      shown += 1;
      if (!word) continue;
      if (found.length < RANGES_MAX) ranges(item, word, found);
      if (found.length < RANGES_MAX) reveal(item, word);
    }
    for (const group of groups) group.hidden = !group.querySelector("[data-item]:not([hidden])");
    for (const turn of turns) turn.hidden = !turn.querySelector("[data-item]:not([hidden])");
    count.textContent = word ? `${shown} of ${items.length} match` : `${items.length} entries`;
    if (window.CSS && CSS.highlights) {
      CSS.highlights.delete("found");
      if (found.length) CSS.highlights.set("found", new Highlight(...found));
    }
    at = -1;
  };

  const move = (step) => {
    const seen = items.filter((item) => !item.hidden && item.checkVisibility());
    if (!seen.length) return;
    const from = seen.indexOf(document.activeElement.closest("[data-item]"));
    at = from >= 0 ? from : at;
    at = Math.min(Math.max(at + step, 0), seen.length - 1);
    const item = seen[at];
    (item.querySelector("summary") || item).focus();
    item.scrollIntoView({ block: "nearest" });
  };

  const expandAll = () => {
    const all = [...main.querySelectorAll("details")];
    const open = all.some((one) => !one.open);
    for (const one of all) one.open = open;
    expand.setAttribute("aria-pressed", String(open));
  };

  const show = (name) => {
    if (name === "auto") delete root.dataset.theme;
    else root.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
  };

  const nextTheme = () => {
    const order = ["auto", "light", "dark"];
    show(order[(order.indexOf(root.dataset.theme || "auto") + 1) % order.length]);
  };

  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  expand.addEventListener("click", expandAll);
  theme.addEventListener("click", nextTheme);
  window.addEventListener("beforeprint", () => {
    for (const one of main.querySelectorAll("details")) one.open = true;
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === field) {
      if (event.key === "Escape") {
        field.value = "";
        search();
        field.blur();
      }
      return;
    }
    const act = { j: () => move(1), k: () => move(-1), e: expandAll, t: nextTheme, "/": () => field.focus() }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  search();
})();
