// Which part of the matrix is in view, and how large. Rows and columns are counted in weights, all
// else in CSS pixels. Cells are square, but where one side is so much longer that the other would
// vanish.

const MOST_CELL = 80; // of a matrix that is all in view
const MOST_ZOOM = 96; // pixels of a cell, or four times what fits
const MOST_SKEW = 3;

class Viewport {
  #queries;
  #keys;
  #room = { left: 0, top: 0, width: 1, height: 1 }; // within the canvas, for the cells
  left = 0; // of the cells that are shown
  top = 0;
  width = 1;
  height = 1;
  row = 0; // at the upper edge; fractions are parts of a cell
  column = 0;
  cellWidth = 1;
  cellHeight = 1;
  isFitted = true; // all of the matrix is in view, and stays so when the room changes

  constructor(queries, keys) {
    this.#queries = queries;
    this.#keys = keys;
  }

  get rowsShown() {
    return this.height / this.cellHeight;
  }
  get columnsShown() {
    return this.width / this.cellWidth;
  }

  // Keeps what was in view, as far as the new room allows.
  resize(width, height, margins) {
    this.#room = {
      left: margins.left,
      top: margins.top,
      width: Math.max(1, width - margins.left - margins.right),
      height: Math.max(1, height - margins.top - margins.bottom),
    };
    if (this.isFitted) this.fit();
    else this.#settle();
  }

  fit() {
    this.isFitted = true;
    [this.cellWidth, this.cellHeight] = this.#fittingCells();
    this.row = 0;
    this.column = 0;
    this.#settle();
  }

  // The weight below a place of the canvas stays where it is.
  zoom(factor, x, y) {
    const [leastWidth, leastHeight] = this.#fittingCells();
    const column = this.column + (x - this.left) / this.cellWidth;
    const row = this.row + (y - this.top) / this.cellHeight;
    this.cellWidth = zoomed(this.cellWidth, factor, leastWidth);
    this.cellHeight = zoomed(this.cellHeight, factor, leastHeight);
    this.isFitted = this.cellWidth <= leastWidth && this.cellHeight <= leastHeight;
    this.column = column - (x - this.left) / this.cellWidth;
    this.row = row - (y - this.top) / this.cellHeight;
    this.#settle();
  }

  pan(x, y) {
    this.column -= x / this.cellWidth;
    this.row -= y / this.cellHeight;
    this.#settle();
  }

  // Moves as little as needed to have the weight in view.
  reveal(row, column) {
    if (row !== null) this.row = within(this.row, row + 1 - this.rowsShown, row);
    if (column !== null) this.column = within(this.column, column + 1 - this.columnsShown, column);
    this.#settle();
  }

  // { row, column } below a place of the canvas, or null beside the matrix.
  weightAt(x, y) {
    const column = Math.floor(this.column + (x - this.left) / this.cellWidth);
    const row = Math.floor(this.row + (y - this.top) / this.cellHeight);
    const inside = x >= this.left && y >= this.top &&
      row >= 0 && row < this.#queries && column >= 0 && column < this.#keys;
    return inside ? { row, column } : null;
  }

  #fittingCells() {
    const width = Math.min(this.#room.width / this.#keys, MOST_CELL);
    const height = Math.min(this.#room.height / this.#queries, MOST_CELL);
    const longer = Math.max(this.#queries, this.#keys);
    if (longer > MOST_SKEW * Math.min(this.#queries, this.#keys)) return [width, height];
    return [Math.min(width, height), Math.min(width, height)];
  }

  #settle() {
    const [leastWidth, leastHeight] = this.#fittingCells();
    this.cellWidth = Math.max(this.cellWidth, leastWidth);
    this.cellHeight = Math.max(this.cellHeight, leastHeight);
    // A matrix that is narrower than the room stands in its middle.
    this.width = Math.min(this.#room.width, this.#keys * this.cellWidth);
    this.height = Math.min(this.#room.height, this.#queries * this.cellHeight);
    this.left = Math.round(this.#room.left + (this.#room.width - this.width) / 2);
    this.top = this.#room.top;
    this.column = within(this.column, 0, Math.max(0, this.#keys - this.columnsShown));
    this.row = within(this.row, 0, Math.max(0, this.#queries - this.rowsShown));
  }
}

function zoomed(cell, factor, least) {
  const larger = within(cell * factor, least, Math.max(MOST_ZOOM, 4 * least));
  return larger < 1.001 * least ? least : larger;
}

function within(value, least, most) {
  return Math.min(Math.max(value, least), most);
}
