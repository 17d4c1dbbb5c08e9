// headwise view: where heads look.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "commands.h"
#include "headwise/error.h"
#include "headwise/io.h"
#include "headwise/view.h"
#include "library_words.h"
#include "option_checks.h"
#include "outputs.h"
#include "terminal/progress.h"
#include "terminal/terminal.h"
#include "terminal/text.h"
#include "usage_error.h"
#include "values.h"
#include "view_source.h"

namespace headwise::cli {

namespace {

struct ViewOptions {
  ViewSourceOptions source = {};
  std::string heads = {};
  std::string rows = {};
  std::string png = {};
  std::string html = {};
  std::string theme = "light";
  std::string scale = "sqrt";
  std::int64_t width = 0;
  std::int64_t height = 0;
};

// "0:64", ":64", "64:"
void parse_rows(const std::string& text, ViewSourceOptions& options) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw UsageError("--rows: expected FIRST:END, for example 0:64, got '" + text + "'");
  }
  const auto number = [&](const std::string& part) {
    const std::vector<std::int64_t> values = integers("--rows", part);
    if (values.size() != 1 || values[0] < 0) {
      throw UsageError("--rows: expected FIRST:END, for example 0:64, got '" + text + "'");
    }
    return values[0];
  };
  if (colon > 0) options.first_row = number(text.substr(0, colon));
  if (colon + 1 < text.size()) options.end_row = number(text.substr(colon + 1));
}

Theme theme_of(const std::string& name) { return name == "dark" ? Theme::Dark : Theme::Light; }

ColourScale scale_of(const std::string& name) {
  if (name == "linear") return ColourScale::Linear;
  return name == "log" ? ColourScale::Logarithmic : ColourScale::SquareRoot;
}

TerminalOptions::Colour colour_of(const terminal::Stream& stream) {
  if (!stream.colour) return TerminalOptions::Colour::None;
  const char* kind = std::getenv("COLORTERM");
  const std::string_view name = kind == nullptr ? "" : kind;
  return name == "truecolor" || name == "24bit" ? TerminalOptions::Colour::TrueColour
                                                : TerminalOptions::Colour::Palette256;
}

std::vector<OutputFile> outputs_of(const ViewOptions& options) {
  return {{"--png", options.png, {".png"}}, {"--html", options.html, {".html", ".htm"}}};
}

// To a file, in one piece, and a line on `said` that says so; or to standard output for "-".
void put(const std::string& path, const std::string& bytes, std::FILE* said) {
  if (path == "-") {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    return;
  }
  write_file(path, bytes);
  std::fprintf(said, "%s: %s\n", path.c_str(),
               terminal::bytes_text(static_cast<double>(bytes.size())).c_str());
}

void warn_about_sums(const ViewSource& source) {
  constexpr double kMost = 1.01;  // what rounding to 8 or 16 bits can make of 1
  constexpr double kLeast = 0.9;  // and of many small weights
  for (const HeadSummary& head : summarise_heads(source.picture)) {
    const bool attends = head.largest_weight > 0.0;
    if (head.largest_sum <= kMost && (!attends || head.smallest_sum >= kLeast)) continue;
    const double sum = head.largest_sum > kMost ? head.largest_sum : head.smallest_sum;
    const std::string text = sum < 0.005 ? "less than 0.01" : terminal::short_number(sum);
    std::fprintf(stderr,
                 "headwise: warning: %s: a row of %s sums to %s, not to 1: are these the weights "
                 "of a softmax?\n",
                 source.name.c_str(), head.name.c_str(), text.c_str());
    return;
  }
}

void note_missing_font(const std::string& text) {
  std::fprintf(stderr,
               "headwise: note: no font has all characters of '%s': boxes stand for them in the "
               "PNG\n",
               text.c_str());
}

std::int64_t head_count(const AttentionPicture& picture) {
  if (!picture.heads.empty()) return std::ssize(picture.heads);
  const ConstView& weights = picture.weights;
  return weights.rank() < 3 ? 1 : weights.extent(weights.rank() - 3);
}

void show(const ViewOptions& options, const ViewSource& source) {
  const AttentionPicture& picture = source.picture;
  const ColourScale scale = scale_of(options.scale);
  std::FILE* said = any_to_standard_output(outputs_of(options)) ? stderr : stdout;
  if (!options.png.empty()) {
    put(options.png,
        draw_png(picture, {.width = options.width,
                           .height = options.height,
                           .theme = theme_of(options.theme),
                           .scale = scale,
                           .no_font = note_missing_font}),
        said);
  }
  if (!options.html.empty()) {
    terminal::ProgressBar bar("heads", head_count(picture));
    put(options.html,
        draw_html(picture,
                  {.scale = scale, .progress = [&](std::int64_t done) { bar.show(done); }}),
        said);
  }
  if (!options.png.empty() || !options.html.empty()) return;
  constexpr int kLeastColumns = 20;  // narrower windows break lines
  const terminal::Stream stream = terminal::standard_output();
  const std::string text = draw_terminal(
      picture, {.colour = colour_of(stream),
                .width = options.width > 0 ? static_cast<int>(options.width)
                                           : std::max(stream.width, kLeastColumns),
                .height = options.height > 0 ? static_cast<int>(options.height) : stream.height,
                .scale = scale,
                .others = "--show-heads for others"});
  std::fputs(text.c_str(), stdout);
}

// What was asked for is a layer's run if there is no file.
void check_source(const CLI::App& command, const ViewSourceOptions& options) {
  const std::vector<std::string> of_run = given_call_options(command);
  if (options.file.empty()) {
    if (!options.array.empty()) throw UsageError("--array: needs a FILE");
    if (of_run.empty()) {
      throw UsageError(
          "what to show is missing: a FILE of attention weights, or a layer to run "
          "(--weights FILE --input x.npy)");
    }
    return;
  }
  for (const std::string& name : of_run) {
    // These two tell where the queries of any weights stand.
    if (name == "--align" || name == "--query-offset") continue;
    throw UsageError(name +
                     ": a FILE of weights is shown as it is: leave out the options of a run");
  }
}

// Options of a picture that is not asked for.
void check_picture(const CLI::App& command, const ViewOptions& options) {
  if (!options.png.empty()) return;
  if (command.count("--theme") > 0) {
    throw UsageError("--theme: needs --png; a page has both themes, a terminal its own colours");
  }
  for (const char* name : {"--width", "--height"}) {
    if (command.count(name) == 0 || options.html.empty()) continue;
    throw UsageError(std::string(name) + ": needs --png as well; a page is as large as its window");
  }
}

void run_view(const CLI::App& command, const ViewOptions& given) {
  ViewOptions options = given;
  if (!options.heads.empty()) options.source.heads = integers("--show-heads", options.heads);
  if (!options.rows.empty()) parse_rows(options.rows, options.source);
  check_source(command, options.source);
  check_picture(command, options);
  check_outputs(outputs_of(options));
  const ViewSource source = view_source(options.source);
  for (const std::string& note : source.notes) {
    std::fprintf(stderr, "headwise: note: %s\n", note.c_str());
  }
  try {
    if (!options.source.file.empty()) warn_about_sums(source);  // a run's are of a softmax
    show(options, source);
  } catch (const ArgumentError& error) {
    if (error.argument() != "weights") throw;
    throw FileError(source.name, problem_of(error).substr(std::string("weights: ").size()));
  }
}

void declare_source(CLI::App& command, ViewOptions& options) {
  ViewSourceOptions& source = options.source;
  command
      .add_option("FILE", source.file,
                  "attention weights: npy, npz or safetensors of (T,S), (H,T,S) or (B,H,T,S), or - "
                  "for npy on standard input; without it a layer is run")
      ->type_name("FILE");
  const auto text = [&](const char* name, std::string& value, const char* type,
                        const char* meaning) {
    command.add_option(name, value, meaning)->type_name(type)->group("What to show");
  };
  text("--array", source.array, "NAME", "which array of a file with several");
  command.add_option("--sequence", source.sequence, "which sequence of a batch (0)")
      ->type_name("N")
      ->group("What to show")
      ->check(whole_number(0));
  text("--show-heads", options.heads, "N,N,…", "only these heads, in this order");
  text("--rows", options.rows, "FIRST:END", "only these queries, for example 0:64");
  text("--tokens", source.tokens, "FILE",
       "tokens of the queries: a line each, one line of words, or .json (an array of strings, "
       "{\"tokens\": […]} or {\"query\": […], \"key\": […]}); of the keys too if they are as many");
  text("--key-tokens", source.key_tokens, "FILE", "tokens of the keys, if they are others");
}

void declare_picture(CLI::App& command, ViewOptions& options) {
  const char* group = "Picture";
  constexpr std::int64_t kMost = 32767;  // the most that a PNG is drawn with
  const auto text = [&](const char* name, std::string& value, const char* type,
                        const char* meaning) {
    return command.add_option(name, value, meaning)->type_name(type)->group(group);
  };
  text("--png", options.png, "FILE", "write all heads beside each other as a PNG");
  text("--html", options.html, "FILE", "write one self-contained page to explore");
  text("--title", options.source.title, "TEXT", "what stands above it (the file or the layer)");
  text("--theme", options.theme, "NAME", "of a PNG: light or dark; a page has both (light)")
      ->check(one_of({"light", "dark"}));
  text("--scale", options.scale, "NAME", "of colours: linear, sqrt or log (sqrt)")
      ->check(one_of({"linear", "sqrt", "log"}));
  command
      .add_option("--width", options.width, "pixels of a PNG, columns in the terminal (what fits)")
      ->type_name("N")
      ->group(group)
      ->check(whole_number(1, kMost));
  command
      .add_option("--height", options.height, "pixels of a PNG, lines in the terminal (what fits)")
      ->type_name("N")
      ->group(group)
      ->check(whole_number(1, kMost));
}

}  // namespace

void declare_view(CLI::App& command) {
  auto options = std::make_shared<ViewOptions>();
  declare_source(command, *options);
  declare_picture(command, *options);
  declare_call_options(command, options->source.call);
  command.callback([options, &command] { run_view(command, *options); });
}

}  // namespace headwise::cli
