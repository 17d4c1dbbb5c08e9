// Tiles as pictures: unpacked on demand, coloured, and forgotten when there are too many.

const MOST_TILES = 320; // of 64 KB of bytes and 256 KB of pixels each

class TileCache {
  #tiles = new Map(); // in order of use
  #arrived;

  constructor(arrived) {
    this.#arrived = arrived;
  }

  // { bytes, rows, columns, picture }, or null while it is being unpacked.
  get(head, level, tileRow, tileColumn) {
    const across = Math.ceil(head.columnsOf(level) / TILE);
    const index = tileRow * across + tileColumn;
    const name = `${head.index}/${level}/${index}`;
    let tile = this.#tiles.get(name);
    if (tile === undefined) {
      tile = {
        bytes: null,
        rows: Math.min(TILE, head.rowsOf(level) - tileRow * TILE),
        columns: Math.min(TILE, head.columnsOf(level) - tileColumn * TILE),
        picture: null,
        painted: null,
      };
      this.#unpack(tile, head.packedTile(level, index));
    } else {
      this.#tiles.delete(name);
    }
    this.#tiles.set(name, tile);
    if (this.#tiles.size > MOST_TILES) this.#tiles.delete(this.#tiles.keys().next().value);
    return tile.bytes === null ? null : tile;
  }

  // One cell of a level, or null while its tile is being unpacked.
  byteAt(head, level, row, column) {
    const tile = this.get(head, level, Math.floor(row / TILE), Math.floor(column / TILE));
    return tile === null ? null : tile.bytes[(row % TILE) * tile.columns + (column % TILE)];
  }

  // The tile in the colours of a palette (see colour.js), as something to draw.
  picture(tile, palette) {
    if (tile.painted === palette) return tile.picture;
    tile.picture ??= document.createElement("canvas");
    tile.picture.width = tile.columns;
    tile.picture.height = tile.rows;
    const context = tile.picture.getContext("2d");
    const image = context.createImageData(tile.columns, tile.rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; ++i) pixels[i] = palette[tile.bytes[i]];
    context.putImageData(image, 0, 0);
    tile.painted = palette;
    return tile.picture;
  }

  async #unpack(tile, packed) {
    tile.bytes = new Uint8Array(await inflated(packed));
    this.#arrived();
  }
}
