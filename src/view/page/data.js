// The attention weights that stand in the page.
//
// Every head has a pyramid: level n holds the largest weight of each block of 2ⁿ × 2ⁿ, as bytes
// in tiles, from coarse to as fine as the page had room for; axes that are short stay as they are. The largest weights of every row are
// there exactly. Both are compressed and unpacked when they are first needed.

const TILE = 256; // cells on each side of a tile

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflated(base64) {
  const stream = new Blob([bytesOf(base64)]).stream();
  const unpacked = stream.pipeThrough(new DecompressionStream("deflate"));
  return new Response(unpacked).arrayBuffer();
}

// Largest weights of each row, in descending order.
class TopWeights {
  #starts;
  #weights;
  #keys;

  constructor(buffer, rows, wideKeys) {
    const counts = new Uint32Array(buffer, 0, rows);
    this.#starts = new Uint32Array(rows + 1);
    for (let row = 0; row < rows; ++row) this.#starts[row + 1] = this.#starts[row] + counts[row];
    const total = this.#starts[rows];
    this.#weights = new Float32Array(buffer, 4 * rows, total);
    const Keys = wideKeys ? Uint32Array : Uint16Array;
    this.#keys = new Keys(buffer, 4 * (rows + total), total);
  }

  row(row) {
    const begin = this.#starts[row];
    const end = this.#starts[row + 1];
    return { keys: this.#keys.subarray(begin, end), weights: this.#weights.subarray(begin, end) };
  }
}

class Head {
  #record;
  #attention;
  #top = null;
  #topAsked = false;

  constructor(record, index, attention) {
    this.#record = record;
    this.#attention = attention;
    this.index = index;
    this.name = record.name;
    this.largest = record.largest;
    this.statistics = record.statistics;
    this.levels = record.levels.map((level) => level.level); // from coarse to fine
  }

  get attendsNothing() {
    return this.statistics.emptyRows === this.#attention.queries;
  }

  get coarsest() {
    return this.levels[0];
  }
  get finest() {
    return this.levels[this.levels.length - 1];
  }

  // The level to draw for so many weights per pixel: no finer than pixels, no finer than stored.
  levelFor(weightsPerPixel) {
    const wanted = Math.max(0, Math.ceil(Math.log2(weightsPerPixel)));
    return Math.min(Math.max(wanted, this.finest), this.coarsest);
  }

  // Weights in a cell of a level, on both sides.
  blockOf(level) {
    const { rowWeights, columnWeights } = this.#record.levels.find((each) => each.level === level);
    return { rows: rowWeights, columns: columnWeights };
  }
  rowsOf(level) {
    return Math.ceil(this.#attention.queries / this.blockOf(level).rows);
  }
  columnsOf(level) {
    return Math.ceil(this.#attention.keys / this.blockOf(level).columns);
  }

  packedTile(level, index) {
    return this.#record.levels.find((each) => each.level === level).tiles[index];
  }

  // The weight that a byte of a tile stands for.
  weightOf(byte) {
    return this.largest * (byte / 255) ** 4;
  }

  // Null until it is unpacked; `arrived` is called then.
  top(arrived) {
    if (this.#top === null && !this.#topAsked) {
      this.#topAsked = true;
      inflated(this.#record.top).then((buffer) => {
        const { queries, keys } = this.#attention;
        this.#top = new TopWeights(buffer, queries, keys > 65536);
        arrived();
      });
    }
    return this.#top;
  }
}

class Attention {
  constructor(json) {
    this.title = json.title;
    this.queries = json.queries;
    this.keys = json.keys;
    this.firstPosition = json.firstPosition;
    this.queryTokens = json.queryTokens;
    this.keyTokens = json.sameTokens ? json.queryTokens : json.keyTokens;
    // One text, read by itself: a key can be chosen as the next query.
    this.isSelf = json.sameTokens || (!json.queryTokens && !json.keyTokens);
    this.largest = json.largest;
    this.topCount = json.topCount; // weights of a row that are exact
    this.scale = json.scale;
    this.maps = { light: bytesOf(json.maps.light), dark: bytesOf(json.maps.dark) };
    this.heads = json.heads.map((record, index) => new Head(record, index, this));
  }

  get allExact() {
    return this.topCount >= this.keys;
  }
  position(query) {
    return this.firstPosition + query;
  }
  queryLabel(query) {
    return this.queryTokens ? this.queryTokens[query] : countText(this.position(query));
  }
  keyLabel(key) {
    return this.keyTokens ? this.keyTokens[key] : countText(key);
  }
  // The query at a key's position, or null.
  queryOfKey(key) {
    const query = key - this.firstPosition;
    return query >= 0 && query < this.queries ? query : null;
  }
}
