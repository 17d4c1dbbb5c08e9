// The colours and the weights that they stand for.

class ScaleBar {
  #attention;
  #store;
  #colours;
  #canvas = document.getElementById("scale-bar");

  constructor(attention, store, colours) {
    this.#attention = attention;
    this.#store = store;
    this.#colours = colours;
    store.on(["size", "theme", "scale", "range", "head"], () => this.#draw());
  }

  #draw() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    const context = this.#canvas.getContext("2d");
    context.scale(ratio, ratio);
    const edge = 14; // room for numbers at both ends
    const length = width - 2 * edge;
    for (let x = 0; x < length; ++x) {
      context.fillStyle = this.#colours.ofPlace(x / (length - 1)).background;
      context.fillRect(edge + x, 2, 1.5, 12);
    }
    context.strokeStyle = themeColour("--line");
    context.strokeRect(edge - 0.5, 1.5, length + 1, 13);
    this.#drawNumbers(context, edge, length);
  }

  // The ends, and what keeps apart of the places between them.
  #drawNumbers(context, edge, length) {
    const scale = this.#store.get("scale");
    const largest = this.#colours.largest(this.#attention.heads[this.#store.get("head")]);
    context.font = labelFont();
    context.fillStyle = themeColour("--ink");
    context.textAlign = "left";
    context.textBaseline = "top";
    const taken = [];
    for (const place of [0, 1, 0.5, 0.25, 0.75]) {
      const weight = scale !== "log" && place === 0 ? 0 : weightAtPlace(scale, place, largest);
      const text = scaleText(weight);
      const { width } = context.measureText(text);
      const left = within(edge + place * length - width / 2, 0, length + 2 * edge - width);
      if (taken.some((each) => left < each.right + 8 && left + width + 8 > each.left)) continue;
      taken.push({ left, right: left + width });
      context.fillText(text, left, 19);
    }
  }
}
