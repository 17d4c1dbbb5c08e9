// From weights to colours.

const DECADES = 4; // that the logarithmic scale shows

// Place of a weight on a scale from 0 to `largest`: 0 … 1.
function placeOf(scale, weight, largest) {
  const share = largest > 0 ? Math.min(Math.max(weight / largest, 0), 1) : 0;
  if (scale === "linear") return share;
  if (scale === "sqrt") return Math.sqrt(share);
  return share > 0 ? Math.max(0, 1 + Math.log10(share) / DECADES) : 0;
}

function weightAtPlace(scale, place, largest) {
  if (scale === "linear") return place * largest;
  if (scale === "sqrt") return place * place * largest;
  return 10 ** ((place - 1) * DECADES) * largest;
}

class Colours {
  #attention;
  #store;
  #palettes = new Map();

  constructor(attention, store) {
    this.#attention = attention;
    this.#store = store;
  }

  // The weight at the end of the scale.
  largest(head) {
    return this.#store.get("range") === "head" ? head.largest : this.#attention.largest;
  }

  // Pixels of the 256 bytes that tiles hold; the same object for the same colours.
  palette(head) {
    const scale = this.#store.get("scale");
    const theme = this.#store.get("theme");
    const largest = this.largest(head);
    const name = `${theme}/${scale}/${largest}/${head.largest}`;
    let palette = this.#palettes.get(name);
    if (palette === undefined) {
      palette = new Uint32Array(256);
      for (let byte = 0; byte < 256; ++byte) {
        const [red, green, blue] = this.#at(placeOf(scale, head.weightOf(byte), largest));
        palette[byte] = (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
      }
      this.#palettes.set(name, palette);
    }
    return palette;
  }

  // As CSS, with a colour for text on it.
  ofWeight(head, weight) {
    return this.ofPlace(placeOf(this.#store.get("scale"), weight, this.largest(head)));
  }

  ofPlace(place) {
    const rgb = this.#at(place);
    const [red, green, blue] = rgb.map((part) => (part / 255) ** 2.2);
    const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    // At 0.18 black and white are equally far, 4.6 : 1: one of them is always readable.
    return { background: `rgb(${rgb.join(" ")})`, ink: luminance > 0.18 ? "#000" : "#fff" };
  }

  #at(place) {
    const map = this.#attention.maps[this.#store.get("theme")];
    const index = 3 * Math.round(place * 255);
    return [map[index], map[index + 1], map[index + 2]];
  }
}

// A colour of the style sheet, for drawing on a canvas.
function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
