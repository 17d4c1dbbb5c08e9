// Pictures: where each head looks (terminal text, PNG, one HTML page), and lines in panels (PNG).
//
//   AttentionPicture ──┬─ summarise_heads ─► entropy, distance, … of each head
//                      ├─ draw_terminal ───► text, plain or in colour
//                      ├─ draw_png ────────► bytes of a PNG
//                      └─ draw_html ───────► one page that needs nothing else
//
// Functions of values: nothing is printed, no file is touched. Token text is never trusted: control
// characters, bidirectional controls and malformed UTF-8 are replaced by characters that show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/tensor.h"

namespace headwise {

// Attention weights, the part of them to show, and names. What it views must outlive the calls.
struct AttentionPicture {
  ConstView weights;                      // (T,S), (H,T,S) or (B,H,T,S), each within 0 … 1
  std::int64_t sequence = 0;              // of B
  std::vector<std::int64_t> heads = {};   // to show, in this order; empty: all
  std::int64_t first_row = 0;             // queries to show: first_row … end_row − 1
  std::optional<std::int64_t> end_row{};  // T, if not given
  // Position of the array's first query among the keys; for a part of T that was cut out before.
  std::int64_t query_offset = 0;

  std::vector<std::string> query_tokens = {};  // UTF-8, one for each of T; empty: positions
  std::vector<std::string> key_tokens = {};    // one for each of S; empty: query_tokens if T = S
  std::vector<std::string> head_names = {};    // one for each of H; empty: "head 0", …
  std::string title = {};
};

// Means over the rows shown. A row that attends nothing counts for no mean.
struct HeadSummary {
  std::string name;
  double entropy = 0.0;  // −Σ p·ln p, nats; e^entropy is about the number of keys attended
  double mean_distance = 0.0;   // Σ p·|query position − key position|
  double first_key_mass = 0.0;  // p of key 0
  double diagonal_mass = 0.0;   // p of the key at the query's own position
  double previous_mass = 0.0;   // p of the key before it
  double largest_weight = 0.0;  // of all, not a mean
  double largest_sum = 0.0;     // of a row; beyond 1: these are not weights of a softmax
  double smallest_sum = 0.0;    // of the rows that attend something
  std::int64_t empty_rows = 0;
};

std::vector<HeadSummary> summarise_heads(const AttentionPicture& picture);

// How a weight becomes a place on the colour scale. Few weights are large: the root shows the rest.
enum class ColourScale { Linear, SquareRoot, Logarithmic };
enum class Theme { Light, Dark };

struct TerminalOptions {
  enum class Colour { None, Palette256, TrueColour };
  Colour colour = Colour::None;
  int width = 80;   // columns
  int height = 24;  // lines, for pictures in colour: heads that find no readable place are left out
  ColourScale scale = ColourScale::SquareRoot;
  std::string others = {};  // said where heads are left out: how to see them
};

// In colour: a heatmap of half blocks, heads side by side. Without: a table of percentages where it
// fits the width, shades elsewhere. Ends in a newline.
std::string draw_terminal(const AttentionPicture& picture, const TerminalOptions& options = {});

struct PngOptions {
  std::int64_t width = 0;   // pixels; 0: as wide as the heads need, at most 1600
  std::int64_t height = 0;  // 0: as high as the heads need
  Theme theme = Theme::Light;
  ColourScale scale = ColourScale::SquareRoot;
  // Called by draw_png, at most once, with a text of which no font has all characters.
  std::function<void(const std::string&)> no_font = {};
};

// Small multiples, one for each head, with tokens along the axes and one colour scale.
std::string draw_png(const AttentionPicture& picture, const PngOptions& options = {});

struct HtmlOptions {
  std::size_t most_bytes = 9'500'000;  // of the page; finer detail is left out to keep it
  ColourScale scale = ColourScale::SquareRoot;
  std::function<void(std::int64_t)> progress = {};  // called with the number of heads done
};

// A page without any reference to something outside of it. The exact largest weights of each row are
// in it, and every head as a pyramid of pictures, as fine as most_bytes allows.
std::string draw_html(const AttentionPicture& picture, const HtmlOptions& options = {});

// Lines in panels, e.g. singular values of every head.
struct LineChart {
  struct Line {
    std::string name;
    std::vector<double> y;       // numbers that are not finite (or ≤ 0 if log_y) leave a gap
    std::vector<double> x = {};  // ascending; empty: 1, 2, 3, …
  };
  struct Panel {
    std::string title;
    std::vector<Line> lines;
    std::string note = {};  // a second, fainter line below the title
  };
  std::string title;
  std::string subtitle = {};
  std::string x_label = {};
  std::string y_label = {};
  bool log_y = false;
  bool shared_y = true;  // one range for all panels
  std::vector<Panel> panels;
};

// One legend for all panels, of the names in order of appearance; the same name has the same colour.
std::string draw_lines_png(const LineChart& chart, const PngOptions& options = {});

}  // namespace headwise
