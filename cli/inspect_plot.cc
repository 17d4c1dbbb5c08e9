#include <cstddef>

#include "headwise/view.h"
#include "inspect_report.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

// The spectra of all heads of a layer, each divided by its largest value: their shapes are what
// differs, and heads of very different norms fit one panel.
LineChart::Panel panel_of(const InspectedLayer& layer, Spectrum HeadSpectra::*product,
                          const std::string& product_name) {
  LineChart::Panel panel;
  panel.title = layer.found.name.empty() ? product_name : layer.found.name;
  std::size_t least = 0;
  std::size_t most = 0;
  const auto& heads = layer.spectra->heads;
  const auto rank = [&](std::size_t h) { return (heads[h].*product).effective_rank; };
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const Spectrum& spectrum = heads[h].*product;
    if (spectrum.spectral_norm == 0.0) continue;  // dead, or not finite
    LineChart::Line line{"head " + std::to_string(h), spectrum.singular_values};
    for (double& value : line.y) value /= spectrum.spectral_norm;
    if (panel.lines.empty() || rank(h) < rank(least)) least = h;
    if (panel.lines.empty() || rank(h) > rank(most)) most = h;
    panel.lines.push_back(std::move(line));
  }
  const auto named = [&](std::size_t h) {
    return terminal::fixed(rank(h), 1) + " (head " + std::to_string(h) + ")";
  };
  panel.note = product_name;
  if (!panel.lines.empty()) panel.note += ", rank " + named(least) + " – " + named(most);
  return panel;
}

}  // namespace

std::string inspect_plot(const InspectReport& report) {
  LineChart chart;
  chart.title = "Singular values of " + report.path.substr(report.path.rfind('/') + 1);
  chart.subtitle =
      "of each head, divided by its largest; rank: the smallest and the largest effective rank";
  chart.x_label = "singular values, the largest first";
  chart.y_label = "σ / σ₁";
  for (const InspectedLayer& layer : report.layers) {
    if (!layer.spectra) continue;
    chart.panels.push_back(panel_of(layer, &HeadSpectra::scores, "W_q·W_kᵀ"));
    chart.panels.push_back(panel_of(layer, &HeadSpectra::values, "W_v·W_o"));
  }
  return draw_lines_png(chart);
}

}  // namespace headwise::cli
