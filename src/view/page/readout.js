// In words: the pair below the pointer or chosen, how the picture is reduced, what the head does.

class Readout {
  #attention;
  #store;
  #matrix;
  #topOf;
  #tiles;
  #pair = document.getElementById("readout-pair");
  #weight = document.getElementById("readout-weight");
  #resolution = document.getElementById("resolution");

  constructor(attention, store, matrix, topOf, tiles) {
    this.#attention = attention;
    this.#store = store;
    this.#matrix = matrix;
    this.#topOf = topOf;
    this.#tiles = tiles;
    store.on(["hover", "query", "key", "head", "tops", "tiles"], () => this.#showPair());
    store.on(["level", "head", "size", "view"], () => this.#showResolution());
    store.on(["head"], () => this.#showHead());
  }

  #showPair() {
    const { query, key, block = null } = shownPair(this.#store);
    const top = this.#topOf(this.#matrix.head);
    const hovering = this.#store.get("hover") !== null;
    // Read aloud what was chosen, not everything the pointer passes.
    document.getElementById("readout").setAttribute("aria-live", hovering ? "off" : "polite");
    if (top === null) return;
    if (key === null) {
      this.#showRow(query, top.row(query));
      return;
    }
    const known = weightOf(this.#attention, this.#matrix.head, top, this.#tiles, { query, key });
    this.#pair.replaceChildren(
      ...queryNodes(this.#attention, query), " → ", ...keyNodes(this.#attention, key));
    this.#weight.replaceChildren(...this.#weightNodes(known, block));
  }

  #weightNodes(known, block) {
    const { topCount } = this.#attention;
    if (known.most !== undefined) {
      const reason = known.block !== undefined
        ? `, the largest of ${known.block} weights with it`
        : `, the smallest of this query’s ${topCount} largest`;
      return ["weight at most ", element("b", "", weightText(known.most)), reason];
    }
    if (known.uncertainty !== undefined) {
      return ["weight about ", element("b", "", weightText(known.weight)),
        ` (± ${percentText(known.uncertainty)}), not among this query’s ${topCount} largest`];
    }
    const nodes = ["weight ", element("b", "", weightText(known.weight))];
    const keys = counted(this.#attention.keys, "key", "keys");
    if (known.rank !== null) nodes.push(`, rank ${countText(known.rank)} of ${keys}`);
    if (block !== null) nodes.push(`, largest of the ${block} below the pointer`);
    return nodes;
  }

  #showRow(query, { keys, weights }) {
    this.#pair.replaceChildren(...queryNodes(this.#attention, query));
    if (keys.length === 0) {
      this.#weight.textContent = "attends nothing: all its weights are 0";
      return;
    }
    this.#weight.replaceChildren("attends most to ", ...keyNodes(this.#attention, keys[0]),
      ": weight ", element("b", "", weightText(weights[0])));
  }

  #showResolution() {
    const head = this.#matrix.head;
    const block = head.blockOf(within(this.#matrix.level, head.finest, head.coarsest));
    let text = "Full resolution: one cell is one weight.";
    if (block.rows * block.columns > 1) {
      text = `Reduced resolution: each cell shows the largest of ${blockText(block)} weights.`;
      text += this.#matrix.level > head.finest ? " Zoom in for more." : this.#limitText();
    }
    this.#resolution.textContent = text;
  }

  #limitText() {
    const { topCount } = this.#attention;
    return ` Finer is not in this page; the ${topCount} largest weights of every query are, exactly.`;
  }

  #showHead() {
    const head = this.#matrix.head;
    document.getElementById("head-name").textContent = head.name;
    const list = document.getElementById("statistics");
    if (head.attendsNothing) {
      const item = element("div");
      item.append(element("dt", "", "attends nothing"));
      list.replaceChildren(item);
      return;
    }
    list.replaceChildren(...STATISTICS.map(({ name, label, hint, text }) => {
      const item = element("div");
      item.title = hint;
      item.append(element("dt", "", label), element("dd", "", text(head.statistics[name])));
      return item;
    }));
    if (head.statistics.emptyRows > 0) {
      const item = element("div");
      item.append(element("dt", "", "Empty rows"),
        element("dd", "", countText(head.statistics.emptyRows)));
      list.append(item);
    }
  }
}
