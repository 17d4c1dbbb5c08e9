#include "convert_changes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "headwise/linear.h"
#include "headwise/spectra.h"
#include "random_inputs.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

LayerParts folded(const LayerParts& layer, const ConvertChanges& changes) {
  LayerParts result = layer;
  const ConstView shift = changes.shift.size() > 0 ? changes.shift.view() : ConstView();
  for (const Projection projection : changes.fold_into) {
    result = fold(result, projection, changes.map, shift);
  }
  return result;
}

// What the old layer has to be given for the new one's inputs: each that was folded into is mapped.
RandomInputs mapped(const RandomInputs& inputs, const ConvertChanges& changes) {
  RandomInputs result = inputs;
  const ConstView shift = changes.shift.size() > 0 ? changes.shift.view() : ConstView();
  for (const Projection projection : changes.fold_into) {
    Tensor& input = projection == Projection::Query ? result.query
                    : projection == Projection::Key ? result.key
                                                    : result.value;
    input = linear(input, changes.map, shift);
  }
  return result;
}

}  // namespace

std::vector<Projection> projections(const std::string& option, const std::string& text) {
  const std::map<std::string, Projection> names = {
      {"query", Projection::Query}, {"key", Projection::Key}, {"value", Projection::Value}};
  const std::string expected = option + ": expected some of query,key,value, got ";
  std::vector<Projection> result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto named = names.find(text.substr(begin, end - begin));
    if (named == names.end() ||
        std::find(result.begin(), result.end(), named->second) != result.end()) {
      throw UsageError(expected + text);
    }
    result.push_back(named->second);
    begin = end + 1;
  }
  return result;
}

std::string ChangedLayer::problem() const {
  constexpr double kMostByRounding = 1e-4;
  if (!std::isfinite(difference.output_error) || !std::isfinite(fold_error)) {
    return "its output is not finite, before the change or after it";
  }
  if (fold_error <= kMostByRounding) return "";
  return "with the map folded in its output is off by " + terminal::significant(fold_error) +
         " of its size";
}

ChangedLayer changed(const LayerParts& layer, const ConvertChanges& changes, bool default_scale) {
  ChangedLayer result{layer, {}};
  if (changes.map.size() > 0) result.parts = folded(layer, changes);
  const RandomInputs inputs(result.parts.config);  // smaller heads take the same
  const RandomInputs old_inputs = mapped(inputs, changes);
  const auto difference = [&] {
    return compare_layers(layer, old_inputs.views(), result.parts, inputs.views());
  };
  if (changes.map.size() > 0) result.fold_error = difference().output_error;
  if (changes.key_dim) {
    RefactoredLayer smaller = refactor_key_dim(result.parts, *changes.key_dim);
    result.parts = default_scale ? with_default_scale(smaller.layer) : std::move(smaller.layer);
    result.score_errors = std::move(smaller.errors);
  }
  result.difference = difference();
  return result;
}

}  // namespace headwise::cli
