// What `headwise inspect` found, and its three dresses: text, JSON, a picture.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "headwise/io.h"
#include "headwise/layouts.h"
#include "headwise/spectra.h"

namespace headwise::cli {

struct InspectedLayer {
  FoundLayer found;
  std::optional<LayerSpectra> spectra = {};  // none: the layer cannot be read, or nobody asked
};

struct InspectReport {
  std::string path;
  std::string format;
  std::vector<TensorInfo> tensors;
  std::size_t layers_in_file = 0;
  std::vector<InspectedLayer> layers;  // those asked for
  SpectraOptions thresholds;
};

struct ReportOptions {
  bool list_tensors = false;     // all of the file
  bool singular_values = false;  // of every head; JSON always has them
};

std::string inspect_text(const InspectReport& report, const ReportOptions& options);
std::string inspect_json(const InspectReport& report, const ReportOptions& options);
// A PNG: the singular values of all heads, two panels for each layer.
std::string inspect_plot(const InspectReport& report);

// "12 heads of key_dim 64, value_dim 32; 768 → 768 features"
std::string sizes_text(const AttentionConfig& config);

}  // namespace headwise::cli
