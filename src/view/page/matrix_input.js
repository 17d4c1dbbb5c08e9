// Mouse and touch on the matrix: hover reads, click pins, wheel and pinch zoom, drag pans.

const CLICK_SLACK = 4; // pixels that a click may move

class MatrixInput {
  #matrix;
  #store;
  #pick;
  #pointers = new Map(); // those that are down
  #moved = 0;
  #spread = 0; // distance of two fingers

  constructor(matrix, store, pick) {
    this.#matrix = matrix;
    this.#store = store;
    this.#pick = pick;
    const canvas = matrix.canvas;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.#forget(event));
    canvas.addEventListener("pointerleave", () => setHover(store, null));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("dblclick", (event) => {
      const { x, y } = this.#place(event);
      this.zoom(2, x, y);
    });
    store.on(["view", "size"], () => {
      // A finger scrolls the page as long as there is nothing to pan.
      canvas.style.touchAction = matrix.viewport.isFitted ? "pan-y" : "none";
    });
  }

  // About a place of the canvas.
  zoom(factor, x, y) {
    this.#matrix.viewport.zoom(factor, x, y);
    this.#store.touch("view");
  }

  // About a weight; about the middle in the direction in which it is not in view.
  zoomAbout(factor, row, column) {
    const view = this.#matrix.viewport;
    const place = (offset, shown) => (offset > 0 && offset < shown ? offset : shown / 2);
    this.zoom(factor,
      view.left + place(column + 0.5 - view.column, view.columnsShown) * view.cellWidth,
      view.top + place(row + 0.5 - view.row, view.rowsShown) * view.cellHeight);
  }

  fit() {
    this.#matrix.viewport.fit();
    this.#store.touch("view");
  }

  #place(event) {
    const box = this.#matrix.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #down(event) {
    if (event.button !== 0) return;
    this.#matrix.canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, this.#place(event));
    if (this.#pointers.size === 1) this.#moved = 0;
    this.#spread = this.#fingerSpread();
  }

  #move(event) {
    const place = this.#place(event);
    const before = this.#pointers.get(event.pointerId);
    if (before === undefined) {
      setHover(this.#store, this.#pick(place.x, place.y));
      return;
    }
    this.#pointers.set(event.pointerId, place);
    if (this.#pointers.size === 2) {
      this.#pinch();
      return;
    }
    const x = place.x - before.x;
    const y = place.y - before.y;
    this.#moved += Math.abs(x) + Math.abs(y);
    if (this.#moved <= CLICK_SLACK) return;
    this.#matrix.canvas.classList.add("panning");
    this.#matrix.viewport.pan(x, y);
    setHover(this.#store, null);
    this.#store.touch("view");
  }

  #up(event) {
    if (!this.#pointers.has(event.pointerId)) return;
    const wasClick = this.#pointers.size === 1 && this.#moved <= CLICK_SLACK;
    this.#forget(event);
    if (!wasClick) return;
    const { x, y } = this.#place(event);
    const picked = this.#pick(x, y);
    if (picked === null) return;
    const again = this.#store.get("pinned") && this.#store.get("query") === picked.query &&
      this.#store.get("key") === picked.key;
    this.#store.set({ query: picked.query, key: again ? null : picked.key, pinned: !again });
  }

  #forget(event) {
    this.#pointers.delete(event.pointerId);
    this.#matrix.canvas.classList.remove("panning");
    if (this.#pointers.size > 0) this.#moved = Infinity; // the rest of a pinch is no click
  }

  #fingerSpread() {
    if (this.#pointers.size !== 2) return 0;
    const [a, b] = this.#pointers.values();
    return Math.hypot(a.x - b.x, a.y - b.y);
  }

  #pinch() {
    const [a, b] = this.#pointers.values();
    const spread = this.#fingerSpread();
    if (this.#spread > 0) this.zoom(spread / this.#spread, (a.x + b.x) / 2, (a.y + b.y) / 2);
    this.#spread = spread;
    this.#moved = Infinity;
  }

  #wheel(event) {
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const factor = Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016));
    // Zooming out of what is all in view: the wheel is meant for the page.
    if (factor < 1 && this.#matrix.viewport.isFitted) return;
    event.preventDefault();
    const { x, y } = this.#place(event);
    this.zoom(factor, x, y);
  }
}
