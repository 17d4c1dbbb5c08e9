#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "inspect_report.h"
#include "terminal/printable.h"
#include "terminal/table.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

using terminal::Align;
using terminal::fixed;
using terminal::printable;
using terminal::short_number;
using terminal::Table;

constexpr const char* kScores = "W_q·W_kᵀ";
constexpr const char* kValues = "W_v·W_o";
constexpr double kShares[] = {0.9, 0.99, 0.999};

std::string count_of(std::size_t count, const std::string& what) {
  return terminal::with_thousands(static_cast<std::int64_t>(count)) + " " + what +
         (count == 1 ? "" : "s");
}

// Three digits that count, or two for small numbers, in few columns whatever the size.
std::string number(double value) {
  constexpr double kLarge = 1e6;
  if (value == 0.0 || (value >= 0.01 && value < kLarge)) return short_number(value);
  char text[32];
  std::snprintf(text, sizeof text, value < kLarge ? "%.1e" : "%.2e", value);
  return text;
}

std::string percentage(double share) {
  const double percents = 100.0 * share;
  return fixed(percents, percents >= 1.0 ? 0 : 2) + "%";
}

// ---- one head ----------------------------------------------------------------------------------

void add_spectrum(std::vector<std::string>& cells, const Spectrum& spectrum) {
  cells.push_back(fixed(spectrum.effective_rank, 1));
  for (const double share : kShares) {
    cells.push_back(std::to_string(dims_for_energy(spectrum, share)));
  }
  cells.push_back(number(spectrum.spectral_norm));
  cells.push_back(number(spectrum.frobenius_norm));
}

// The heads that this one is like, as "5 (0.98)".
std::vector<std::pair<std::int64_t, std::string>> partners(const std::vector<HeadPair>& pairs,
                                                           std::int64_t head) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const HeadPair& pair : pairs) {
    if (pair.head != head && pair.other != head) continue;
    const std::int64_t other = pair.head == head ? pair.other : pair.head;
    found.emplace_back(other, std::to_string(other) + " (" + fixed(pair.similarity, 2) + ")");
  }
  return found;
}

std::string notes_of(const LayerSpectra& spectra, std::int64_t index) {
  const HeadSpectra& head = spectra.heads[static_cast<std::size_t>(index)];
  std::vector<std::string> notes;
  if (!head.finite) notes.emplace_back("has weights that are not finite");
  if (head.dead) notes.emplace_back("dead");
  if (head.uniform) notes.emplace_back("uniform");
  for (const auto& [other, text] : partners(spectra.alike_scores, index)) {
    notes.push_back("looks like " + text);
  }
  for (const auto& [other, text] : partners(spectra.alike_values, index)) {
    notes.push_back("gives like " + text);
  }
  std::string joined;
  for (const std::string& note : notes) joined += (joined.empty() ? "" : ", ") + note;
  return joined;
}

// ---- one layer ---------------------------------------------------------------------------------

// Titles of the two groups of columns, above the first column of each.
std::string with_group_titles(const std::string& table) {
  const std::string header = table.substr(0, table.find('\n'));
  const std::size_t first = terminal::columns(header.substr(0, header.find("rank")));
  const std::size_t second = terminal::columns(header.substr(0, header.rfind("rank")));
  return terminal::left(std::string(first, ' ') + kScores, second) + kValues + "\n" + table;
}

std::string head_table(const AttentionConfig& config, const LayerSpectra& spectra) {
  std::vector<Table::Column> columns = {{"head"}};
  const bool grouped = config.kv_heads() != config.num_heads;
  if (grouped) columns.push_back({"kv"});
  for (int product = 0; product < 2; ++product) {
    for (const char* title : {"rank", "90%", "99%", "99.9%", "σ₁", "norm"}) {
      columns.push_back({title});
    }
  }
  columns.push_back({"", Align::Left});
  Table table(columns);
  for (std::size_t h = 0; h < spectra.heads.size(); ++h) {
    const HeadSpectra& head = spectra.heads[h];
    std::vector<std::string> cells = {std::to_string(h)};
    if (grouped) cells.push_back(std::to_string(head.kv_head));
    if (head.finite) {
      add_spectrum(cells, head.scores);
      add_spectrum(cells, head.values);
    }
    cells.resize(columns.size() - 1);
    cells.push_back(notes_of(spectra, static_cast<std::int64_t>(h)));
    table.add(std::move(cells));
  }
  return with_group_titles(table.to_string());
}

std::string values_text(const LayerSpectra& spectra) {
  std::string text;
  const auto add = [&](std::size_t head, const char* product, const Spectrum& spectrum) {
    text += "head " + std::to_string(head) + " " + product + ":";
    for (const double value : spectrum.singular_values) text += " " + number(value);
    text += '\n';
  };
  for (std::size_t h = 0; h < spectra.heads.size(); ++h) {
    add(h, kScores, spectra.heads[h].scores);
    add(h, kValues, spectra.heads[h].values);
  }
  return text;
}

std::string heads_where(const LayerSpectra& spectra, bool HeadSpectra::*flag) {
  std::string list;
  for (std::size_t h = 0; h < spectra.heads.size(); ++h) {
    if (spectra.heads[h].*flag) list += (list.empty() ? "" : ", ") + std::to_string(h);
  }
  return list.empty() ? "none" : list;
}

std::string most_alike(const Tensor& similarity) {
  constexpr double kAny = -1.0;
  const HeadPair pair = alike_heads(similarity, kAny).front();
  return std::to_string(pair.head) + " and " + std::to_string(pair.other) + " (" +
         fixed(pair.similarity, 2) + ")";
}

std::string findings(const InspectedLayer& layer, const SpectraOptions& thresholds) {
  const LayerSpectra& spectra = *layer.spectra;
  std::string text = "Dead heads: " + heads_where(spectra, &HeadSpectra::dead) + " (norm of " +
                     kValues + " below " + percentage(thresholds.dead_below) + " of the median " +
                     number(spectra.median_value_norm) + ").";
  if (layer.found.config->qk_norm == QkNorm::None) {
    text += " Uniform: " + heads_where(spectra, &HeadSpectra::uniform) + ".";
  }
  text += '\n';
  if (spectra.heads.size() > 1) {
    text += "Most alike: " + most_alike(spectra.score_similarity) + " in " + kScores + ", " +
            most_alike(spectra.value_similarity) + " in " + kValues + "; noted from " +
            fixed(thresholds.alike_above, 2) + " on.\n";
  }
  return text;
}

std::string layer_title(const FoundLayer& found) {
  std::string text = (found.name.empty() ? std::string("the layer") : printable(found.name)) +
                     " (" + std::string(name_of(found.layout)) + ")";
  if (found.config) return text + ": " + sizes_text(*found.config) + "\n";
  return text + ": cannot be read: " + printable(found.missing) + "\n";
}

std::string caveats(const FoundLayer& found) {
  std::string text;
  for (const std::string& note : found.notes) text += "Note: " + printable(note) + ".\n";
  if (!found.config) return text;
  if (found.config->qk_norm != QkNorm::None) {
    text += "Note: " + std::string(kScores) +
            " is what queries and keys are before they are normalised.\n";
  }
  if (found.config->use_gate) text += "Note: " + std::string(kValues) + " is without the gate.\n";
  return text;
}

std::string layer_text(const InspectedLayer& layer, const InspectReport& report,
                       const ReportOptions& options) {
  std::string text = layer_title(layer.found) + caveats(layer.found);
  if (!layer.spectra) return text;
  text += head_table(*layer.found.config, *layer.spectra) + findings(layer, report.thresholds);
  if (options.singular_values) text += values_text(*layer.spectra);
  return text;
}

// ---- all layers --------------------------------------------------------------------------------

// "21 – 31": the smallest and the largest over the heads.
template <typename Figure>
std::string range(const LayerSpectra& spectra, const Figure& figure) {
  double least = 0.0;
  double most = 0.0;
  bool any = false;
  for (const HeadSpectra& head : spectra.heads) {
    if (!head.finite) continue;
    const double value = figure(head);
    least = any ? std::min(least, value) : value;
    most = any ? std::max(most, value) : value;
    any = true;
  }
  if (!any) return "";
  const std::string low = fixed(least, 0);
  const std::string high = fixed(most, 0);
  return low == high ? low : low + " – " + high;
}

std::string summary(const InspectReport& report) {
  Table table({{"layer", Align::Left},
               {"heads"},
               {"QK rank"},
               {"QK 90%"},
               {"QK 99%"},
               {"VO rank"},
               {"VO 90%"},
               {"VO 99%"},
               {"dead"},
               {"alike"}});
  for (const InspectedLayer& layer : report.layers) {
    if (!layer.spectra) continue;
    const LayerSpectra& spectra = *layer.spectra;
    std::vector<std::string> cells = {layer.found.name, std::to_string(spectra.heads.size())};
    for (const auto product : {&HeadSpectra::scores, &HeadSpectra::values}) {
      cells.push_back(range(spectra, [&](const auto& h) { return (h.*product).effective_rank; }));
      for (const double share : {0.9, 0.99}) {
        cells.push_back(range(spectra, [&](const auto& h) {
          return static_cast<double>(dims_for_energy(h.*product, share));
        }));
      }
    }
    const auto dead = std::count_if(spectra.heads.begin(), spectra.heads.end(),
                                    [](const HeadSpectra& head) { return head.dead; });
    cells.push_back(std::to_string(dead));
    cells.push_back(std::to_string(spectra.alike_scores.size() + spectra.alike_values.size()));
    table.add(std::move(cells));
  }
  return table.to_string();
}

std::string tensor_table(const std::vector<TensorInfo>& tensors) {
  Table table({{"tensor", Align::Left}, {"dtype", Align::Left}, {"shape", Align::Left}});
  for (const TensorInfo& tensor : tensors) {
    table.add({tensor.name, tensor.dtype, tensor.shape.to_string()});
  }
  return table.to_string();
}

constexpr const char* kLegend =
    "rank: effective rank, e to the entropy of σ/Σσ · 90%, 99%, 99.9%: how many singular values "
    "keep\n"
    "that share of Σσ² · σ₁: the largest of them · norm: √Σσ². See docs/inspect.md.\n";

}  // namespace

std::string sizes_text(const AttentionConfig& config) {
  std::string text = count_of(static_cast<std::size_t>(config.num_heads), "head");
  if (config.kv_heads() != config.num_heads) {
    text += " on " + count_of(static_cast<std::size_t>(config.kv_heads()), "key/value head");
  }
  text += " of key_dim " + std::to_string(config.key_dim);
  if (config.value_size() != config.key_dim) {
    text += ", value_dim " + std::to_string(config.value_size());
  }
  return text + ", " + std::to_string(config.query_features) + " → " +
         std::to_string(config.outputs()) + " features" + (config.use_bias ? "" : ", no biases");
}

std::string inspect_text(const InspectReport& report, const ReportOptions& options) {
  std::string text = printable(report.path) + ": " + report.format + ", " +
                     count_of(report.tensors.size(), "tensor") + ", " +
                     count_of(report.layers_in_file, "attention layer") + "\n";
  if (options.list_tensors) text += "\n" + tensor_table(report.tensors);
  std::size_t inspected = 0;
  for (const InspectedLayer& layer : report.layers) {
    if (!options.list_tensors || layer.spectra || &layer == &report.layers.front()) text += '\n';
    text += layer_text(layer, report, options);
    if (layer.spectra) ++inspected;
  }
  if (inspected > 1) text += "\n" + summary(report);
  if (inspected > 0) text += "\n" + std::string(kLegend);
  return text;
}

}  // namespace headwise::cli
