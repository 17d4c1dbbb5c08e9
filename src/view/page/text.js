// Numbers and names as text. Names go into the page as text only, never as markup.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Digits that count, three for a weight that is read and two for one on a scale; small ones with
// their power of ten.
function scaleText(weight) {
  if (weight === 0) return "0";
  return weight >= 0.001 ? String(Number(weight.toPrecision(2))) : weight.toExponential(1);
}

function weightText(weight) {
  if (weight === 0) return "0";
  return weight >= 0.001 ? weight.toPrecision(3) : weight.toExponential(2);
}

function percentText(share) {
  const percent = 100 * share;
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

// "47,164"
function countText(count) {
  return count.toLocaleString("en");
}

function counted(count, one, many) {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

function blockText({ rows, columns }) {
  return `${rows} × ${columns}`;
}

const MOST_LETTERS = 60; // of a token within a sentence

// A token within a sentence; isolated, so that its direction stays its own. What is cut off is there
// when the pointer is.
function tokenElement(label) {
  const letters = Array.from(label);
  if (letters.length <= MOST_LETTERS) return element("bdi", "", label);
  const made = element("bdi", "", letters.slice(0, MOST_LETTERS).join("") + "…");
  made.title = label;
  return made;
}

// "query 5 “sat”", as nodes.
function queryNodes(attention, query) {
  const nodes = [`query ${countText(attention.position(query))}`];
  if (attention.queryTokens) nodes.push(" “", tokenElement(attention.queryLabel(query)), "”");
  return nodes;
}

function keyNodes(attention, key) {
  const nodes = [`key ${countText(key)}`];
  if (attention.keyTokens) nodes.push(" “", tokenElement(attention.keyLabel(key)), "”");
  return nodes;
}

// Which statistics a head has, in the order they are shown; the last of each says how it sorts best.
const STATISTICS = [
  { name: "entropy", label: "Entropy", hint: "mean of −Σ p·ln p over the queries, in nats",
    text: (value) => value.toFixed(2), descending: false },
  { name: "distance", label: "Distance", hint: "mean number of tokens between a query and what it attends",
    text: (value) => (value < 1000 ? value.toFixed(1) : countText(Math.round(value))), descending: false },
  { name: "firstKey", label: "First key", hint: "mean weight of the first key",
    text: percentText, descending: true },
  { name: "own", label: "Own key", hint: "mean weight of the key at the query’s own position",
    text: percentText, descending: true },
  { name: "previous", label: "Previous key", hint: "mean weight of the key just before it",
    text: percentText, descending: true },
];
