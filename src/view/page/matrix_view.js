// One head, large: tiles of the level that suits the zoom, names along the sides, the chosen row.

class MatrixView {
  #attention;
  #store;
  #colours;
  #tiles;
  #canvas = document.getElementById("matrix");
  #context = this.#canvas.getContext("2d");
  #axes;
  viewport;
  level = 0; // that was drawn last

  constructor(attention, store, colours, tiles) {
    this.#attention = attention;
    this.#store = store;
    this.#colours = colours;
    this.#tiles = tiles;
    this.#axes = new Axes(attention);
    this.viewport = new Viewport(attention.queries, attention.keys);
    new ResizeObserver(() => store.touch("size")).observe(document.getElementById("stage"));
    store.on(["size"], () => this.#resize());
    store.on(
      ["size", "head", "theme", "scale", "range", "view", "tiles", "query", "key", "hover", "pinned"],
      () => this.#draw());
  }

  get canvas() {
    return this.#canvas;
  }
  get head() {
    return this.#attention.heads[this.#store.get("head")];
  }

  #resize() {
    const { clientWidth, clientHeight } = this.#canvas;
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(clientWidth * ratio);
    this.#canvas.height = Math.round(clientHeight * ratio);
    this.viewport.resize(clientWidth, clientHeight, this.#axes.margins(clientWidth));
  }

  #draw() {
    const ratio = window.devicePixelRatio || 1;
    const view = this.viewport;
    const context = this.#context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = themeColour("--paper");
    context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    this.#drawCells(ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#drawFrame(view);
    const chosen = shownPair(this.#store);
    this.#drawChosen(view, chosen);
    this.#axes.draw(context, view, chosen);
    this.#canvas.setAttribute("aria-label",
      `Attention weights of ${this.head.name}: rows are queries, columns are keys`);
  }

  // `beyond`: pixels around the cells that may be drawn on as well.
  #clipped(beyond, draw) {
    const view = this.viewport;
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(view.left - beyond, view.top - beyond, view.width + 2 * beyond,
      view.height + 2 * beyond);
    context.clip();
    draw();
    context.restore();
  }

  #drawCells(ratio) {
    const view = this.viewport;
    const head = this.head;
    const level = head.levelFor(1 / (Math.min(view.cellWidth, view.cellHeight) * ratio));
    if (level !== this.level) {
      this.level = level;
      this.#store.touch("level");
    }
    const context = this.#context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#clipped(0, () => {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.imageSmoothingEnabled = false;
      // The coarsest level is there at once; what is finer covers it as it arrives.
      if (level !== head.coarsest) this.#drawLevel(head, head.coarsest, ratio);
      this.#drawLevel(head, level, ratio);
    });
  }

  #drawLevel(head, level, ratio) {
    const view = this.viewport;
    const block = head.blockOf(level);
    const tileRows = TILE * block.rows; // weights
    const tileColumns = TILE * block.columns;
    const palette = this.#colours.palette(head);
    const lastRow = Math.min(Math.ceil(head.rowsOf(level) / TILE),
      Math.ceil((view.row + view.rowsShown) / tileRows));
    const lastColumn = Math.min(Math.ceil(head.columnsOf(level) / TILE),
      Math.ceil((view.column + view.columnsShown) / tileColumns));
    // Whole pixels of the screen, so that neighbours meet without a seam.
    const x = (column) => Math.round((view.left + (column - view.column) * view.cellWidth) * ratio);
    const y = (row) => Math.round((view.top + (row - view.row) * view.cellHeight) * ratio);
    for (let row = Math.floor(view.row / tileRows); row < lastRow; ++row) {
      for (let column = Math.floor(view.column / tileColumns); column < lastColumn; ++column) {
        const tile = this.#tiles.get(head, level, row, column);
        if (tile === null) continue;
        const left = x(column * tileColumns);
        const top = y(row * tileRows);
        const right = x(column * tileColumns + tile.columns * block.columns);
        const bottom = y(row * tileRows + tile.rows * block.rows);
        this.#context.drawImage(
          this.#tiles.picture(tile, palette), left, top, right - left, bottom - top);
      }
    }
  }

  #drawFrame(view) {
    const context = this.#context;
    context.strokeStyle = themeColour("--line");
    context.lineWidth = 1;
    context.strokeRect(view.left - 0.5, view.top - 0.5, view.width + 1, view.height + 1);
  }

  // Lines around the chosen row and column; a pinned row has them stronger.
  #drawChosen(view, chosen) {
    if (chosen.query === null) return;
    const context = this.#context;
    this.#clipped(2, () => {
      context.strokeStyle = themeColour("--accent");
      const height = Math.max(view.cellHeight, 3);
      const y = view.top + (chosen.query - view.row) * view.cellHeight;
      context.lineWidth = this.#store.get("pinned") && this.#store.get("query") === chosen.query ? 2 : 1;
      context.strokeRect(view.left - 4, y - 0.5, view.width + 8, height + 1);
      if (chosen.key === null) return;
      const width = Math.max(view.cellWidth, 3);
      const x = view.left + (chosen.key - view.column) * view.cellWidth;
      context.lineWidth = 1;
      context.strokeRect(x - 0.5, view.top - 4, width + 1, view.height + 8);
    });
  }
}
