// All heads, small: a thumbnail, entropy and distance, and the statistic they are sorted by.

const ON_CARDS = ["entropy", "distance"];
const THUMBNAIL_CELLS = 96; // about as many on the longer side
const MOST_WIDENED = 1.4; // a card, where a row has fewer than there is room for

class HeadsView {
  #attention;
  #store;
  #colours;
  #tiles;
  #list = document.getElementById("head-list");
  #cards = [];
  #seen = new Set(); // cards that were in view: only they are drawn
  order = []; // of heads, as they are shown

  constructor(attention, store, colours, tiles) {
    this.#attention = attention;
    this.#store = store;
    this.#colours = colours;
    this.#tiles = tiles;
    this.#fillSort();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) this.#seen.add(Number(entry.target.dataset.head));
      }
      store.touch("tiles");
    }, { root: null, rootMargin: "200px" });
    this.#cards = attention.heads.map((head) => {
      const card = this.#makeCard(head);
      observer.observe(card);
      return card;
    });
    this.#list.addEventListener("click", (event) => {
      const card = event.target.closest(".head");
      if (card !== null) store.set({ head: Number(card.dataset.head), hover: null });
    });
    store.on(["sort"], () => this.#sort());
    store.on(["head"], () => this.#select());
    store.on(["size"], () => this.#arrange());
    store.on(["tiles", "theme", "scale", "range"], () => this.#drawSeen());
    this.#sort();
  }

  // The head `steps` further in the order shown; stops at the ends.
  neighbour(steps) {
    const place = this.order.indexOf(this.#store.get("head"));
    return this.order[within(place + steps, 0, this.order.length - 1)];
  }

  #fillSort() {
    const select = document.getElementById("sort");
    const option = (value, text) => {
      const made = element("option", "", text);
      made.value = value;
      return made;
    };
    select.append(option("order", "order"),
      ...STATISTICS.map(({ name, label }) => option(name, label.toLowerCase())));
    select.addEventListener("change", () => this.#store.set({ sort: select.value }));
  }

  #makeCard(head) {
    const card = element("div", "head");
    card.id = `head-${head.index}`;
    card.setAttribute("role", "option");
    card.dataset.head = head.index;
    const canvas = element("canvas");
    canvas.setAttribute("aria-hidden", "true");
    card.append(canvas, element("span", "name", head.name), element("div", "values"));
    card.title = head.name;
    return card;
  }

  #sort() {
    const sort = this.#store.get("sort");
    const statistic = STATISTICS.find(({ name }) => name === sort);
    const heads = [...this.#attention.heads];
    if (statistic !== undefined) {
      const sign = statistic.descending ? -1 : 1;
      heads.sort((a, b) => sign * (a.statistics[sort] - b.statistics[sort]) || a.index - b.index);
    }
    this.order = heads.map((head) => head.index);
    const shown = STATISTICS.filter((each) => ON_CARDS.includes(each.name) || each === statistic);
    for (const head of heads) {
      const values = head.attendsNothing ? ["attends nothing"]
        : shown.map(({ name, label, text }) => `${label} ${text(head.statistics[name])}`);
      this.#cards[head.index].querySelector(".values")
        .replaceChildren(...values.map((value) => element("span", "", value)));
    }
    this.#list.replaceChildren(...this.order.map((index) => this.#cards[index]));
    this.#list.scrollTop = 0; // the first of the new order are what was asked for
  }

  // In as few rows as the style sheet has room for, but none of them for a few that are left over.
  #arrange() {
    this.#list.style.gridTemplateColumns = "";
    const fitting = getComputedStyle(this.#list).gridTemplateColumns.split(" ");
    const rows = Math.ceil(this.#cards.length / fitting.length);
    if (rows === 1) return;
    const columns = Math.ceil(this.#cards.length / rows);
    const widest = Math.round(MOST_WIDENED * parseFloat(fitting[0]));
    this.#list.style.gridTemplateColumns = `repeat(${columns}, minmax(0, ${widest}px))`;
  }

  #select() {
    const chosen = this.#store.get("head");
    for (const [index, card] of this.#cards.entries()) {
      card.setAttribute("aria-selected", index === chosen ? "true" : "false");
    }
    this.#list.setAttribute("aria-activedescendant", `head-${chosen}`);
    // Within the list only: the page itself must not jump.
    const card = this.#cards[chosen];
    const list = this.#list.getBoundingClientRect();
    const box = card.getBoundingClientRect();
    if (box.top < list.top) this.#list.scrollTop -= list.top - box.top + 4;
    if (box.bottom > list.bottom) this.#list.scrollTop += box.bottom - list.bottom + 4;
  }

  #drawSeen() {
    for (const index of this.#seen) this.#drawCard(this.#attention.heads[index]);
  }

  #drawCard(head) {
    const longer = Math.max(this.#attention.queries, this.#attention.keys);
    const level = head.levelFor(longer / THUMBNAIL_CELLS);
    const canvas = this.#cards[head.index].querySelector("canvas");
    const palette = this.#colours.palette(head);
    if (canvas.palette === palette) return;
    const rows = head.rowsOf(level);
    const columns = head.columnsOf(level);
    canvas.width = columns;
    canvas.height = rows;
    const shape = within(this.#attention.keys / this.#attention.queries, 0.5, 4);
    canvas.style.aspectRatio = String(shape);
    const context = canvas.getContext("2d");
    let complete = true;
    for (let row = 0; row * TILE < rows; ++row) {
      for (let column = 0; column * TILE < columns; ++column) {
        const tile = this.#tiles.get(head, level, row, column);
        complete &&= tile !== null;
        if (tile === null) continue;
        context.drawImage(this.#tiles.picture(tile, palette), column * TILE, row * TILE);
      }
    }
    if (complete) canvas.palette = palette;
    this.#cards[head.index].classList.toggle("drawn", complete);
  }
}
