// The selected query's largest weights as a list.

const MOST_LISTED = 50;

class KeysView {
  #attention;
  #store;
  #topOf;
  #list = document.getElementById("key-list");

  constructor(attention, store, topOf) {
    this.#attention = attention;
    this.#store = store;
    this.#topOf = topOf;
    this.#list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item !== null) store.set({ key: Number(item.dataset.key), hover: null });
    });
    store.on(["head", "query", "hover", "pinned", "tops", "tab"], () => this.#show());
    store.on(["head", "query", "hover", "pinned", "tops"], () => this.#showQuery());
  }

  // Above whichever view is open: which query it is about.
  #showQuery() {
    const query = shownQuery(this.#store);
    const { topCount, allExact } = this.#attention;
    const note = [];
    if (this.#store.get("pinned")) note.push("pinned");
    if (!allExact) note.push(`its ${topCount} largest weights are coloured`);
    const nodes = queryNodes(this.#attention, query);
    if (note.length > 0) nodes.push(element("span", "note", ` (${note.join(", ")})`));
    document.getElementById("selected-query").replaceChildren(...nodes);
  }

  #show() {
    if (this.#store.get("tab") !== "keys") return;
    const top = this.#topOf(this.#attention.heads[this.#store.get("head")]);
    if (top === null) return;
    const { keys, weights } = top.row(shownQuery(this.#store));
    const items = [];
    for (let i = 0; i < Math.min(keys.length, MOST_LISTED); ++i) {
      const item = element("li");
      item.dataset.key = keys[i];
      const fill = element("span", "bar-fill");
      fill.style.width = `${100 * weights[i]}%`;
      const number = countText(keys[i]);
      item.append(fill, element("span", "rank", `${i + 1}.`));
      if (this.#attention.keyTokens) {
        item.append(tokenElement(this.#attention.keyLabel(keys[i])), element("span", "rank", number));
      } else {
        item.append(tokenElement(`key ${number}`));
      }
      item.append(element("span", "weight", weightText(weights[i])));
      items.push(item);
    }
    if (items.length === 0) items.push(element("li", "", "attends nothing"));
    this.#list.replaceChildren(...items);
  }
}
