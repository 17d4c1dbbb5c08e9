// Names along the two sides of the matrix.

const LABEL_SIZE = 11;
const LABEL_PITCH = 14; // pixels that one token takes across itself
const NUMBER_PITCH = 28; // positions stand further apart: nobody needs them all
const MOST_TOKEN_STEP = 3; // every fourth token says less than its position
const SLANT = (-55 * Math.PI) / 180;

function labelFont() {
  return `${LABEL_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
}

function roundStep(least) {
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) if (digit * power >= least) return digit * power;
  }
}

// Text cut to a width, "…" at its end; widths are remembered, tokens come again and again.
class Meter {
  #context = document.createElement("canvas").getContext("2d");
  #widths = new Map();

  constructor(font) {
    this.#context.font = font;
  }

  width(text) {
    let width = this.#widths.get(text);
    if (width === undefined) {
      width = this.#context.measureText(text).width;
      if (this.#widths.size > 200000) this.#widths.clear();
      this.#widths.set(text, width);
    }
    return width;
  }

  cut(text, room) {
    if (this.width(text) <= room) return text;
    const letters = Array.from(text);
    while (letters.length > 0 && this.width(letters.join("") + "…") > room) letters.pop();
    return letters.join("") + "…";
  }
}

// Longest of the labels, within a limit; of very many some tell.
function longestLabel(meter, count, labelOf, most) {
  const stride = Math.max(1, Math.floor(count / 5000));
  let longest = 0;
  for (let i = 0; i < count; i += stride) longest = Math.max(longest, meter.width(labelOf(i)));
  return Math.min(longest, most);
}

class Axes {
  #attention;
  #meter;
  #boldMeter; // of the chosen ones; room is made for it, so that nothing changes when one is chosen
  #keyRoom = 0; // pixels along a key's label
  #styles = null;

  constructor(attention) {
    this.#attention = attention;
    this.#meter = new Meter(labelFont());
    this.#boldMeter = new Meter(`bold ${labelFont()}`);
  }

  // Pixels that labels take left of and above the cells, and right of them for slanted ones.
  margins(width) {
    const { queries, keys, queryTokens, keyTokens } = this.#attention;
    const longestQuery = longestLabel(
      this.#boldMeter, queries, (i) => this.#attention.queryLabel(i), Math.min(110, 0.24 * width));
    const longestKey = longestLabel(
      this.#boldMeter, keys, (i) => this.#attention.keyLabel(i), 84);
    this.#keyRoom = longestKey;
    return {
      left: Math.ceil(Math.max(queryTokens ? longestQuery : 0, this.#numberWidth(), this.#meter.width("query ↓")) + 16),
      top: keyTokens ? Math.ceil(Math.max(-Math.sin(SLANT) * longestKey + 14, 34)) : 34,
      right: keyTokens ? Math.ceil(Math.cos(SLANT) * longestKey) : 12,
      bottom: 4,
    };
  }

  #numberWidth() {
    const { queries, firstPosition } = this.#attention;
    return this.#boldMeter.width(countText(firstPosition + queries));
  }

  draw(context, view, chosen) {
    const font = labelFont();
    this.#styles = {
      plain: { font, meter: this.#meter, colour: themeColour("--ink") },
      chosen: { font: `bold ${font}`, meter: this.#boldMeter, colour: themeColour("--accent") },
    };
    context.direction = "ltr";
    this.#drawTitles(context, view, font);
    this.#drawQueries(context, view, chosen);
    this.#drawKeys(context, view, chosen);
  }

  // In the corner, where no label stands.
  #drawTitles(context, view, font) {
    context.font = font;
    context.fillStyle = themeColour("--faint");
    context.textAlign = "right";
    context.textBaseline = "alphabetic";
    context.fillText("key →", view.left - 15, view.top - 20);
    context.fillText("query ↓", view.left - 15, view.top - 7);
  }

  // Returns what measures the text that is drawn now.
  #use(context, bold) {
    const style = bold ? this.#styles.chosen : this.#styles.plain;
    context.font = style.font;
    context.fillStyle = style.colour;
    return style.meter;
  }

  #drawQueries(context, view, chosen) {
    const { queryTokens } = this.#attention;
    const tokenStep = Math.ceil(LABEL_PITCH / view.cellHeight);
    const tokens = queryTokens && tokenStep <= MOST_TOKEN_STEP;
    const step = tokens ? tokenStep : roundStep(NUMBER_PITCH / view.cellHeight);
    const label = (row) =>
      tokens ? this.#attention.queryLabel(row) : countText(this.#attention.position(row));
    context.textAlign = "right";
    context.textBaseline = "middle";
    const draw = (row, bold) => {
      const y = view.top + (row + 0.5 - view.row) * view.cellHeight;
      if (y < view.top - 1 || y > view.top + view.height + 1) return;
      const meter = this.#use(context, bold);
      context.fillText(meter.cut(label(row), view.left - 10), view.left - 6, y);
    };
    this.#each(view.row, view.rowsShown, this.#attention.queries, step, tokens ? 0 : this.#attention.firstPosition,
      chosen.query, LABEL_PITCH / view.cellHeight, draw);
  }

  #drawKeys(context, view, chosen) {
    const { keyTokens } = this.#attention;
    const tokenStep = Math.ceil(LABEL_PITCH / -Math.sin(SLANT) / view.cellWidth);
    const tokens = keyTokens && tokenStep <= MOST_TOKEN_STEP;
    const apart = tokens ? LABEL_PITCH : this.#meter.width("0,000") + 12;
    const step = tokens ? tokenStep : roundStep(apart / view.cellWidth);
    context.textBaseline = tokens ? "middle" : "alphabetic";
    context.textAlign = tokens ? "left" : "center";
    const draw = (key, bold) => {
      const x = view.left + (key + 0.5 - view.column) * view.cellWidth;
      if (x < view.left - 1 || x > view.left + view.width + 1) return;
      const meter = this.#use(context, bold);
      if (!tokens) {
        context.fillText(countText(key), x, view.top - 7);
        return;
      }
      context.save();
      context.translate(x, view.top - 7);
      context.rotate(SLANT);
      context.fillText(meter.cut(this.#attention.keyLabel(key), this.#keyRoom), 0, 0);
      context.restore();
    };
    this.#each(view.column, view.columnsShown, this.#attention.keys, step, 0, chosen.key,
      apart / view.cellWidth, draw);
  }

  // Every step-th label that is in view, but none so near to the chosen one that they touch.
  #each(first, shown, count, step, offset, chosen, apart, draw) {
    const begin = Math.max(0, Math.ceil((Math.floor(first) + offset) / step) * step - offset);
    const end = Math.min(count, Math.ceil(first + shown));
    for (let i = begin; i < end; i += step) {
      if (chosen === null || Math.abs(i - chosen) >= apart) draw(i, false);
    }
    if (chosen !== null) draw(chosen, true);
  }
}
