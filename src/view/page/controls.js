// Buttons, tabs, theme, help, and the keyboard.

const KEYS = [
  ["← →", "previous and next head, in the order shown"],
  ["↑ ↓ or k j", "previous and next query; what is zoomed moves along"],
  ["Shift ← → or h l", "previous and next key, likewise"],
  ["Home End", "first and last query"],
  ["Page Up Page Down", "ten queries"],
  ["+ − 0", "larger and smaller about what is chosen, all of it"],
  ["Scrolling", "in the text and in the list of keys these keys scroll; Home, End and Page keys scroll a page " +
    "higher than the window, unless matrix, heads or links have the focus"],
  ["1 2", "links, keys"],
  ["s", "sort heads by the next statistic"],
  ["t", "light or dark"],
  ["Escape", "release the pinned query"],
  ["?", "this help"],
  ["Mouse", "hover reads a weight, a click pins its query, the wheel zooms, dragging pans"],
  ["Touch", "a tap pins, two fingers zoom, one pans what is zoomed"],
];

// Light or dark by the button; by the system until it was used.
class ThemeSwitch {
  #store;
  #system = matchMedia("(prefers-color-scheme: dark)");
  #chosen = null;

  constructor(store) {
    this.#store = store;
    this.#system.addEventListener("change", () => this.apply());
    document.getElementById("theme").addEventListener("click", () => this.toggle());
    this.apply();
  }

  toggle() {
    this.#chosen = this.#store.get("theme") === "dark" ? "light" : "dark";
    this.apply();
  }

  apply() {
    this.show(this.#chosen ?? (this.#system.matches ? "dark" : "light"));
  }

  show(theme) {
    document.documentElement.dataset.theme = theme;
    document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
    this.#store.set({ theme });
  }
}

class Tabs {
  #store;
  #names = ["links", "keys"];

  constructor(store) {
    this.#store = store;
    for (const name of this.#names) {
      const tab = document.getElementById(`tab-${name}`);
      tab.addEventListener("click", () => store.set({ tab: name }));
      tab.addEventListener("keydown", (event) => this.#walk(event));
    }
    store.on(["tab"], () => this.#show());
    this.#show();
  }

  // Arrows within the tab list walk the tabs, as tab lists do.
  #walk(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.stopPropagation();
    const place = this.#names.indexOf(this.#store.get("tab"));
    const name = this.#names[(place + step + this.#names.length) % this.#names.length];
    this.#store.set({ tab: name });
    document.getElementById(`tab-${name}`).focus();
  }

  #show() {
    const open = this.#store.get("tab");
    for (const name of this.#names) {
      const tab = document.getElementById(`tab-${name}`);
      tab.setAttribute("aria-selected", name === open ? "true" : "false");
      tab.tabIndex = name === open ? 0 : -1;
      document.getElementById(`panel-${name}`).hidden = name !== open;
    }
    document.getElementById("link-count").hidden = open !== "links";
  }
}

const LEAPS = ["Home", "End", "PageUp", "PageDown"];
const SCROLLS = ["ArrowUp", "ArrowDown", ...LEAPS];

// Keys that scroll are left to a list that has the focus and something to scroll, and the leaps among
// them to a page that is higher than its window. Matrix, heads and links take them for queries.
function isForScrolling({ key, shiftKey, target }) {
  if (shiftKey || !SCROLLS.includes(key)) return false;
  const list = target.closest("#key-list, .flow");
  if (list !== null) return list.scrollHeight > list.clientHeight;
  if (target.closest("#matrix, #head-list, #links") !== null) return false;
  return LEAPS.includes(key) && document.documentElement.scrollHeight > innerHeight;
}

class Controls {
  #attention;
  #store;
  #heads;
  #matrix;
  #input;
  #theme;

  constructor({ attention, store, heads, matrix, input, theme }) {
    this.#attention = attention;
    this.#store = store;
    this.#heads = heads;
    this.#matrix = matrix;
    this.#input = input;
    this.#theme = theme;
    new Tabs(store);
    this.#onClick("previous", () => this.#moveHead(-1));
    this.#onClick("next", () => this.#moveHead(1));
    this.#onClick("zoom-in", () => this.#zoom(1.6));
    this.#onClick("zoom-out", () => this.#zoom(1 / 1.6));
    this.#onClick("zoom-fit", () => input.fit());
    this.#onClick("help", () => this.#help());
    for (const name of ["scale", "range"]) {
      const select = document.getElementById(name);
      select.value = store.get(name);
      select.addEventListener("change", () => store.set({ [name]: select.value }));
    }
    document.getElementById("help-rows").append(...KEYS.map(([key, meaning]) => {
      const row = element("tr");
      const name = element("th", "", key);
      name.scope = "row";
      row.append(name, element("td", "", meaning));
      return row;
    }));
    document.addEventListener("keydown", (event) => this.#press(event));
  }

  #onClick(id, action) {
    document.getElementById(id).addEventListener("click", action);
  }

  #help() {
    const dialog = document.getElementById("help-dialog");
    if (!dialog.open) dialog.showModal();
  }

  #moveHead(steps) {
    this.#store.set({ head: this.#heads.neighbour(steps), hover: null });
  }

  #moveQuery(query) {
    const bounded = within(query, 0, this.#attention.queries - 1);
    this.#store.set({ query: bounded, key: null, pinned: true, hover: null });
    this.#matrix.viewport.reveal(bounded, null);
    this.#store.touch("view");
  }

  #moveKey(step) {
    const key = this.#store.get("key");
    const next = key === null ? this.#nearestKey() : key + step;
    const bounded = within(next, 0, this.#attention.keys - 1);
    this.#store.set({ key: bounded, pinned: true, hover: null });
    this.#matrix.viewport.reveal(this.#store.get("query"), bounded);
    this.#store.touch("view");
  }

  // Where walking along a row begins: at the query's own position.
  #nearestKey() {
    return this.#attention.position(this.#store.get("query"));
  }

  // About what is chosen, so that it stays in view.
  #zoom(factor) {
    const key = this.#store.get("key") ?? this.#nearestKey();
    this.#input.zoomAbout(factor, this.#store.get("query"), within(key, 0, this.#attention.keys - 1));
  }

  #sortNext() {
    const select = document.getElementById("sort");
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    this.#store.set({ sort: select.value });
  }

  // Null for keys that are not ours.
  #actionOf(event) {
    const query = this.#store.get("query");
    if (event.shiftKey && event.key === "ArrowLeft") return () => this.#moveKey(-1);
    if (event.shiftKey && event.key === "ArrowRight") return () => this.#moveKey(1);
    const actions = {
      ArrowLeft: () => this.#moveHead(-1),
      ArrowRight: () => this.#moveHead(1),
      ArrowUp: () => this.#moveQuery(query - 1),
      ArrowDown: () => this.#moveQuery(query + 1),
      k: () => this.#moveQuery(query - 1),
      j: () => this.#moveQuery(query + 1),
      h: () => this.#moveKey(-1),
      l: () => this.#moveKey(1),
      Home: () => this.#moveQuery(0),
      End: () => this.#moveQuery(this.#attention.queries - 1),
      PageUp: () => this.#moveQuery(query - 10),
      PageDown: () => this.#moveQuery(query + 10),
      "+": () => this.#zoom(1.6),
      "=": () => this.#zoom(1.6),
      "-": () => this.#zoom(1 / 1.6),
      0: () => this.#input.fit(),
      1: () => this.#store.set({ tab: "links" }),
      2: () => this.#store.set({ tab: "keys" }),
      s: () => this.#sortNext(),
      t: () => this.#theme.toggle(),
      Escape: () => this.#store.set({ pinned: false, key: null, hover: null }),
      "?": () => this.#help(),
    };
    return Object.hasOwn(actions, event.key) ? actions[event.key] : null;
  }

  #press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.closest("select, input, dialog") !== null) return;
    if (isForScrolling(event)) return;
    const action = this.#actionOf(event);
    if (action === null) return;
    event.preventDefault();
    action();
  }
}
