// Reads the data, makes the views, and lets the store tell them apart from then on.

function start() {
  const attention = new Attention(JSON.parse(document.getElementById("data").textContent));
  const store = new Store({
    head: 0, query: 0, key: null, hover: null, pinned: false,
    theme: "light", scale: attention.scale, range: "all", sort: "order", tab: "links", links: 3,
  });
  const colours = new Colours(attention, store);
  const tiles = new TileCache(() => store.touch("tiles"));
  const topOf = (head) => head.top(() => store.touch("tops"));

  document.title = attention.title === "" ? "Attention" : `${attention.title} · attention`;
  document.getElementById("title").textContent =
    attention.title === "" ? "Attention weights" : attention.title;
  document.getElementById("sizes").textContent = [
    counted(attention.heads.length, "head", "heads"),
    `${counted(attention.queries, "query", "queries")} × ${counted(attention.keys, "key", "keys")}`,
  ].join(" · ");

  const matrix = new MatrixView(attention, store, colours, tiles);
  const pick = (x, y) => pickPair(attention, matrix, topOf(matrix.head), x, y);
  const input = new MatrixInput(matrix, store, pick);
  const heads = new HeadsView(attention, store, colours, tiles);
  new Readout(attention, store, matrix, topOf, tiles);
  new ScaleBar(attention, store, colours);
  new TextView(attention, store, colours, topOf);
  new LinksView(attention, store, topOf);
  new KeysView(attention, store, topOf);
  const theme = new ThemeSwitch(store);
  new Controls({ attention, store, heads, matrix, input, theme });
  new Paper(store, theme);
  for (const name of ["size", "head", "query", "tab"]) store.touch(name);
}

function complain(text) {
  const problem = document.getElementById("problem");
  problem.textContent = text;
  problem.hidden = false;
}

if (typeof DecompressionStream === "undefined") {
  complain("This browser is too old for this page: it lacks DecompressionStream (2023).");
} else {
  try {
    start();
  } catch (error) {
    complain(`This page cannot be shown: ${error.message}`);
    throw error;
  }
}
