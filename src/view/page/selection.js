// Which query and key are meant: what the pointer is over, else what was chosen.

function shownPair(store) {
  const hover = store.get("hover");
  if (hover !== null) return hover;
  return { query: store.get("query"), key: store.get("key") };
}

// The same pair again is no change: nothing is drawn anew.
function setHover(store, pair) {
  const before = store.get("hover");
  const same = before !== null && pair !== null && before.query === pair.query &&
    before.key === pair.key && before.block === pair.block;
  if (!same) store.set({ hover: pair });
}

// The query whose row the token views show. A pinned one stays whatever the pointer is over.
function shownQuery(store) {
  const hover = store.get("hover");
  return hover !== null && !store.get("pinned") ? hover.query : store.get("query");
}

// The weight of a pair, as well as the page knows it:
//   { weight, rank }        exact; rank 1 is the row's largest, rank null a weight of 0
//   { weight, uncertainty } from the finest level, which holds bytes: within that share of it
//   { most, block }         the largest of a block of weights, one of which it is
//   { most }                the row's smallest that is exact; it is not among them
function weightOf(attention, head, top, tiles, { query, key }) {
  const { keys, weights } = top.row(query);
  const place = keys.indexOf(key);
  if (place >= 0) return { weight: weights[place], rank: place + 1 };
  if (keys.length < attention.topCount || attention.allExact) return { weight: 0, rank: null };
  const most = weights[weights.length - 1];
  const { rows, columns } = head.blockOf(head.finest);
  const byte = tiles.byteAt(head, head.finest, Math.floor(query / rows), Math.floor(key / columns));
  if (byte === null) return { most };
  if (byte === 0) return { weight: 0, rank: null };
  const weight = head.weightOf(byte);
  if (rows * columns > 1) {
    return weight < most ? { most: weight, block: blockText({ rows, columns }) } : { most };
  }
  return { weight: Math.min(weight, most), uncertainty: 2 / byte };
}

// The pair below a place of the matrix. Where several weights share a pixel it is the largest of
// them that is known exactly, since that is what the colour shows.
function pickPair(attention, matrix, top, x, y) {
  const place = matrix.viewport.weightAt(x, y);
  if (place === null) return null;
  const pair = { query: place.row, key: place.column, block: null };
  const { rows, columns } = matrix.head.blockOf(matrix.level);
  if (rows * columns === 1 || top === null) return pair;
  const firstRow = Math.floor(place.row / rows) * rows;
  const firstKey = Math.floor(place.column / columns) * columns;
  let largest = 0;
  for (let row = firstRow; row < Math.min(firstRow + rows, attention.queries); ++row) {
    const { keys, weights } = top.row(row);
    // Descending: the first that lies in the block is the row's largest there.
    for (let i = 0; i < keys.length && weights[i] > largest; ++i) {
      if (keys[i] < firstKey || keys[i] >= firstKey + columns) continue;
      largest = weights[i];
      pair.query = row;
      pair.key = keys[i];
      pair.block = blockText({ rows, columns });
    }
  }
  return pair;
}
