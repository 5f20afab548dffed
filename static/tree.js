// The tree's page beyond links and forms: keys, one tab stop, and following what happens. All of it can be missing.
(() => {
  const panel = () => document.getElementById("panel");
  const list = () => panel().querySelector("ol[data-tree]");
  const items = () => [...list().querySelectorAll("li")].filter((item) => item.offsetParent);
  const level = (item) => {
    const above = item.parentElement.closest("li");
    return above ? level(above) + 1 : Number(item.dataset.depth || 0) + 1;
  };
  const opener = (item) => item.querySelector(":scope > a, :scope > form button, :scope > details > summary");
  const fold = (item) => item.querySelector(":scope > .branch .fold");
  let current = ""; // the id of the row that has the tab stop
  let inside = false; // whether the focus was on a row

  // A row that is folded away, or has become a step of one, has its fold in its place.
  const known = (id) => {
    const item = id && (document.getElementById(id) || document.getElementById(id.replace(/^f-/, "n-")));
    return item && (item.offsetParent ? item : item.parentElement.closest("li"));
  };
  const place = (item, focus) => {
    for (const other of list().querySelectorAll('li[tabindex="0"]')) other.tabIndex = -1;
    item.tabIndex = 0;
    current = item.id;
    if (focus) item.focus();
  };

  // A tree for assistive technology, one stop for the tab key. What a row opens keeps its own stops.
  const dress = () => {
    const tree = list();
    if (!tree) return;
    tree.setAttribute("role", "tree");
    tree.setAttribute("aria-label", tree.dataset.tree);
    const runs = [];
    const sets = new Set();
    for (const item of tree.querySelectorAll("li")) {
      const depth = level(item);
      item.setAttribute("role", "treeitem");
      item.setAttribute("aria-level", depth);
      item.tabIndex = -1;
      const inner = item.querySelector(":scope > details");
      if (inner) item.setAttribute("aria-expanded", inner.open);
      else if (fold(item)) item.setAttribute("aria-expanded", !("folded" in fold(item).dataset));
      for (const stop of item.querySelectorAll(":scope > a, :scope > form button, :scope > details > summary, .fold")) stop.tabIndex = -1;
      runs.length = Math.min(runs.length, depth);
      (runs[depth - 1] ||= []).push(item);
      item.setAttribute("aria-posinset", runs[depth - 1].length);
      sets.add(runs[depth - 1]);
    }
    for (const set of sets) for (const sibling of set) sibling.setAttribute("aria-setsize", set.length);
    for (const inner of tree.querySelectorAll("details > ol")) inner.setAttribute("role", "group");
    const stop = known(current) || tree.querySelector("li.open, li[aria-current]");
    place(stop || tree.querySelector("li"), inside && document.activeElement === document.body);
  };

  const go = (item, step) => {
    const all = items();
    const to = all[all.indexOf(item) + step];
    if (to) place(to, true);
  };
  const parent = (item) => {
    const all = items();
    const above = all.slice(0, all.indexOf(item)).reverse().find((other) => level(other) < level(item));
    if (above) place(above, true);
  };
  const moves = {
    ArrowDown: (item) => go(item, 1),
    ArrowUp: (item) => go(item, -1),
    Home: () => place(items()[0], true),
    End: () => place(items().at(-1), true),
    ArrowRight: (item) => {
      const inner = item.querySelector(":scope > details");
      if (inner && !inner.open) inner.open = true;
      else if (fold(item) && "folded" in fold(item).dataset) fold(item).click();
      else go(item, 1);
    },
    ArrowLeft: (item) => {
      const inner = item.querySelector(":scope > details");
      if (inner && inner.open) inner.open = false;
      else if (fold(item) && !("folded" in fold(item).dataset)) fold(item).click();
      else parent(item);
    },
    Enter: (item) => opener(item)?.click(),
    " ": (item) => opener(item)?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const find = document.getElementById("find");
    if (event.target === find) {
      if (event.key !== "Escape") return;
      event.preventDefault();
      if (find.value) find.value = "";
      else list()?.querySelector('li[tabindex="0"]')?.focus();
    } else if (event.target.matches("li[role=treeitem]") && moves[event.key]) {
      event.preventDefault();
      moves[event.key](event.target);
    } else if (event.key === "/" && document.body.dataset.keys === "on" && find && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      find.focus();
    }
  });
  document.addEventListener("toggle", ({ target }) => {
    if (target.parentElement?.matches("li[role=treeitem]")) target.parentElement.setAttribute("aria-expanded", target.open);
  }, true);
  document.addEventListener("focusin", ({ target }) => {
    inside = target.matches("li[role=treeitem]");
    if (inside) current = target.id;
  });

  // What has changed is told by a piece that holds nothing: the tree is asked for again as it is shown here.
  let waiting = 0;
  document.addEventListener("htmx:after:swap", () => {
    dress();
    const told = document.getElementById("changed");
    if (!told || !told.dataset.n || told.dataset.n === told.dataset.seen) return;
    told.dataset.seen = told.dataset.n;
    if (new URLSearchParams(location.search).get("find") || waiting) return;
    waiting = setTimeout(() => {
      waiting = 0;
      htmx.ajax("GET", location.pathname + location.search, { target: "#panel", select: "#panel", swap: "outerMorph", push: "false" });
    }, 300);
  });
  dress();
})();
