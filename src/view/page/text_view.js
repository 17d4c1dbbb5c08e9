// The text, each token on a ground as strong as the selected query's weight on it. Lines are laid
// out once for the width there is; only those in view are in the document.

const LINE_HEIGHT = 28;
const TOKEN_PADDING = 8; // both sides, and the gap to the next
const MOST_TOKEN = 220; // pixels

class TokenFlow {
  #element;
  #count;
  #label;
  #dress;
  #sheet = element("div", "sheet");
  #meter = null;
  #lines = []; // { first, end, widths }
  #made = new Map(); // elements of the lines in view, by line
  #width = 0;

  // `dress(span, index)` colours a token; `chosen(index)` and `pointed(index or null)` tell of clicks and hovers.
  constructor(container, count, label, { dress, chosen, pointed }) {
    this.#element = container;
    this.#count = count;
    this.#label = label;
    this.#dress = dress;
    container.append(this.#sheet);
    container.addEventListener("scroll", () => this.show());
    const indexOf = (event) => {
      const token = event.target.closest(".token");
      return token === null ? null : Number(token.dataset.index);
    };
    this.#sheet.addEventListener("click", (event) => {
      const index = indexOf(event);
      if (index !== null) chosen(index);
    });
    this.#sheet.addEventListener("pointerover", (event) => pointed(indexOf(event)));
    this.#sheet.addEventListener("pointerleave", () => pointed(null));
  }

  show() {
    this.#layOut();
    const first = Math.max(0, Math.floor(this.#element.scrollTop / LINE_HEIGHT) - 2);
    const last = Math.min(this.#lines.length,
      Math.ceil((this.#element.scrollTop + this.#element.clientHeight) / LINE_HEIGHT) + 2);
    // Elements stay for as long as they are in view: one that is replaced below the pointer would
    // be hovered anew, and a click that began on it would be lost.
    for (const [line, made] of this.#made) {
      if (line >= first && line < last) continue;
      made.remove();
      this.#made.delete(line);
    }
    for (let line = first; line < last; ++line) {
      if (!this.#made.has(line)) {
        this.#made.set(line, this.#makeLine(line));
        this.#sheet.append(this.#made.get(line));
      }
      for (const token of this.#made.get(line).children) this.#dress(token, Number(token.dataset.index));
    }
  }

  // Scrolls, if it must, so that the token is in view.
  reveal(index) {
    this.#layOut();
    const line = this.#lines.findIndex(({ end }) => index < end);
    const top = line * LINE_HEIGHT;
    const { scrollTop, clientHeight } = this.#element;
    if (top < scrollTop || top + 2 * LINE_HEIGHT > scrollTop + clientHeight) {
      this.#element.scrollTop = Math.max(0, top - clientHeight / 3);
    }
  }

  #layOut() {
    const width = this.#element.clientWidth - 12;
    if (width === this.#width) return;
    this.#width = width;
    const inView = this.#lines[Math.round(this.#element.scrollTop / LINE_HEIGHT)]?.first ?? 0;
    const style = getComputedStyle(this.#element);
    this.#meter ??= new Meter(`600 ${style.fontSize} ${style.fontFamily}`);
    this.#lines = [];
    this.#made.clear();
    this.#sheet.replaceChildren();
    let line = { first: 0, end: 0, widths: [] };
    let used = 0;
    for (let i = 0; i < this.#count; ++i) {
      const needed = Math.ceil(
        Math.min(this.#meter.width(this.#label(i)) + TOKEN_PADDING, MOST_TOKEN, width));
      if (used + needed > width && line.widths.length > 0) {
        this.#lines.push(line);
        line = { first: i, end: i, widths: [] };
        used = 0;
      }
      line.widths.push(Math.max(needed, 14));
      line.end = i + 1;
      used += Math.max(needed, 14);
    }
    this.#lines.push(line);
    this.#sheet.style.height = `${this.#lines.length * LINE_HEIGHT + 6}px`;
    this.#element.scrollTop = LINE_HEIGHT * this.#lines.findIndex(({ end }) => inView < end);
  }

  #makeLine(number) {
    const { first, widths } = this.#lines[number];
    const made = element("div", "line");
    made.style.top = `${number * LINE_HEIGHT + 4}px`;
    made.style.left = "6px";
    for (const [offset, width] of widths.entries()) {
      const token = element("span", "token", this.#label(first + offset));
      token.dataset.index = first + offset;
      token.dir = "auto";
      token.style.width = `${width}px`;
      made.append(token);
    }
    return made;
  }
}

class TextView {
  #attention;
  #store;
  #colours;
  #topOf;
  #weights = new Map(); // of the selected query, by key
  #keys;
  #queries = null;
  #revealed = null; // the query that was scrolled to last

  constructor(attention, store, colours, topOf) {
    this.#attention = attention;
    this.#store = store;
    this.#colours = colours;
    this.#topOf = topOf;
    const isSelf = attention.isSelf;
    this.#keys = new TokenFlow(document.getElementById("text-keys"), attention.keys,
      (key) => attention.keyLabel(key), {
        dress: (span, key) => this.#dressKey(span, key),
        chosen: (key) => this.#chooseKey(key),
        pointed: (key) => this.#point(key),
      });
    if (!isSelf) this.#addQueries();
    store.on(["size", "head", "query", "hover", "pinned", "theme", "scale", "range", "tops"],
      () => this.#show());
    store.on(["query", "hover", "pinned"], () => this.#reveal());
  }

  // Queries are another text than the keys: a list of their own to choose from.
  #addQueries() {
    const container = document.getElementById("text-queries");
    container.hidden = false;
    this.#queries = new TokenFlow(container, this.#attention.queries,
      (query) => this.#attention.queryLabel(query), {
        dress: (span, query) => span.classList.toggle("chosen", query === shownQuery(this.#store)),
        chosen: (query) => this.#store.set({ query, key: null, pinned: true }),
        pointed: () => {},
      });
  }

  #show() {
    const head = this.#attention.heads[this.#store.get("head")];
    const top = this.#topOf(head);
    this.#weights.clear();
    if (top !== null) {
      const { keys, weights } = top.row(shownQuery(this.#store));
      for (let i = 0; i < keys.length; ++i) this.#weights.set(keys[i], weights[i]);
    }
    this.#keys.show();
    this.#queries?.show();
  }

  #reveal() {
    const query = shownQuery(this.#store);
    if (query === this.#revealed) return;
    this.#revealed = query;
    this.#queries?.reveal(query);
    const key = this.#attention.position(query);
    if (this.#attention.isSelf && key < this.#attention.keys) this.#keys.reveal(key);
  }

  #dressKey(span, key) {
    const head = this.#attention.heads[this.#store.get("head")];
    const weight = this.#weights.get(key);
    const { background, ink } =
      weight === undefined ? { background: "", ink: "" } : this.#colours.ofWeight(head, weight);
    span.style.background = background;
    span.style.color = ink;
    const isOwn = this.#attention.isSelf && this.#attention.queryOfKey(key) === shownQuery(this.#store);
    span.classList.toggle("chosen", isOwn);
  }

  #chooseKey(key) {
    const query = this.#attention.isSelf ? this.#attention.queryOfKey(key) : null;
    if (query !== null) this.#store.set({ query, key: null, pinned: true, hover: null });
    else this.#store.set({ key, hover: null });
  }

  #point(key) {
    const query = shownQuery(this.#store);
    setHover(this.#store, key === null ? null : { query, key });
  }
}
