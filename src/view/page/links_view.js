// Queries left, keys right, and a curve for each of a query's largest weights. Rows in view are in
// the document; curves are drawn on a canvas that stays in view.

const LINK_ROW = 22; // pixels
const LINK_TOP = 6; // above the first row

function rowTop(index) {
  return LINK_TOP + index * LINK_ROW;
}

class LinksView {
  #attention;
  #store;
  #topOf;
  #scroller = document.getElementById("links");
  #rows = document.getElementById("link-rows");
  #canvas = document.getElementById("link-lines");
  #made = new Map(); // elements of the rows in view, by kind and index
  #revealed = null; // the query that was scrolled to last

  constructor(attention, store, topOf) {
    this.#attention = attention;
    this.#store = store;
    this.#topOf = topOf;
    this.#fillCounts();
    this.#scroller.addEventListener("scroll", () => this.#show());
    this.#rows.addEventListener("click", (event) => this.#choose(event));
    this.#rows.addEventListener("pointerover", (event) => this.#point(event));
    this.#rows.addEventListener("pointerleave", () => setHover(store, null));
    store.on(["size", "head", "query", "hover", "pinned", "theme", "tops", "tab", "links"],
      () => this.#show());
    store.on(["query", "hover", "pinned", "tab"], () => this.#reveal());
  }

  #fillCounts() {
    const select = document.getElementById("link-count");
    const most = Math.min(this.#attention.topCount, this.#attention.keys, 8);
    for (const count of [1, 2, 3, 5, 8].filter((each) => each <= most)) {
      const option = element("option", "", `${count} a query`);
      option.value = count;
      select.append(option);
    }
    select.value = String(Math.min(3, most));
    select.addEventListener("change", () => this.#store.set({ links: Number(select.value) }));
    this.#store.set({ links: Math.min(3, most) });
  }

  get #isShown() {
    return this.#store.get("tab") === "links";
  }

  #reveal() {
    const query = shownQuery(this.#store);
    if (!this.#isShown || query === this.#revealed) return;
    this.#revealed = query;
    const top = rowTop(query);
    const { scrollTop, clientHeight } = this.#scroller;
    if (top < scrollTop || top + LINK_ROW > scrollTop + clientHeight) {
      this.#scroller.scrollTop = top - clientHeight / 3;
    }
  }

  #show() {
    if (!this.#isShown) return;
    const { queries, keys } = this.#attention;
    const { scrollTop, clientHeight } = this.#scroller;
    this.#rows.style.height = `${rowTop(Math.max(queries, keys)) + LINK_TOP}px`;
    const first = Math.max(0, Math.floor((scrollTop - LINK_TOP) / LINK_ROW));
    const last = Math.ceil((scrollTop + clientHeight - LINK_TOP) / LINK_ROW);
    const before = this.#made;
    this.#made = new Map();
    this.#keep("query", first, Math.min(last, queries), before);
    this.#keep("key", first, Math.min(last, keys), before);
    for (const row of before.values()) row.remove();
    this.#draw(first, Math.min(last, queries));
  }

  // Rows that were in view stay as they are (see text_view.js), others are made.
  #keep(kind, first, end, before) {
    for (let index = first; index < end; ++index) {
      const name = `${kind} ${index}`;
      const row = before.get(name) ?? this.#row(kind, index);
      if (!before.delete(name)) this.#rows.append(row);
      row.classList.toggle("chosen", kind === "query" && index === shownQuery(this.#store));
      this.#made.set(name, row);
    }
  }

  #row(kind, index) {
    const label = kind === "query" ? this.#attention.queryLabel(index) : this.#attention.keyLabel(index);
    const made = element("div", `link-row ${kind}`, label);
    made.dataset[kind] = index;
    made.style.top = `${rowTop(index)}px`;
    return made;
  }

  // Curves of the queries in view, faint; those of the selected one on top.
  #draw(first, end) {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height, scrollTop } = this.#scroller;
    this.#canvas.style.height = `${height}px`;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    const top = this.#topOf(this.#attention.heads[this.#store.get("head")]);
    if (top === null) return;
    const context = this.#canvas.getContext("2d");
    context.scale(ratio, ratio);
    const chosen = shownQuery(this.#store);
    const geometry = { left: width * 0.34 + 2, right: width * 0.66 - 2, scrollTop };
    context.strokeStyle = themeColour("--faint");
    for (let query = first; query < end; ++query) {
      if (query !== chosen) this.#drawQuery(context, top, query, geometry, 0.35);
    }
    context.strokeStyle = themeColour("--accent");
    this.#drawQuery(context, top, chosen, geometry, 1);
  }

  #drawQuery(context, top, query, { left, right, scrollTop }, strength) {
    const { keys, weights } = top.row(query);
    const from = rowTop(query + 0.5) - scrollTop;
    const bend = (right - left) / 2;
    for (let i = 0; i < Math.min(keys.length, this.#store.get("links")); ++i) {
      const to = rowTop(keys[i] + 0.5) - scrollTop;
      context.globalAlpha = strength * (0.25 + 0.75 * Math.sqrt(weights[i]));
      context.lineWidth = 0.6 + 7 * weights[i];
      context.beginPath();
      context.moveTo(left, from);
      context.bezierCurveTo(left + bend, from, right - bend, to, right, to);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  #choose(event) {
    const { query, key } = event.target.dataset;
    if (query !== undefined) this.#store.set({ query: Number(query), key: null, pinned: true, hover: null });
    if (key !== undefined) this.#store.set({ key: Number(key), hover: null });
  }

  #point(event) {
    const { query, key } = event.target.dataset;
    if (key !== undefined) {
      setHover(this.#store, { query: shownQuery(this.#store), key: Number(key) });
    } else if (query !== undefined && !this.#store.get("pinned")) {
      setHover(this.#store, { query: Number(query), key: null });
    } else {
      setHover(this.#store, null);
    }
  }
}
