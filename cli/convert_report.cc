#include "convert_report.h"

#include <cstddef>

#include "random_inputs.h"
#include "terminal/printable.h"
#include "terminal/table.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

using terminal::Align;
using terminal::Table;

std::string shown(const std::string& name) {
  return name.empty() ? "(unnamed)" : terminal::printable(name);
}

std::string arrow(std::int64_t from, std::int64_t to) {
  return std::to_string(from) + " → " + std::to_string(to);
}

std::string layer_table(const std::vector<NamedLayer>& layers) {
  Table table({{"layer", Align::Left},
               {"heads"},
               {"kv heads"},
               {"key_dim"},
               {"value_dim"},
               {"features"},
               {"parameters"}});
  for (const auto& [name, parts] : layers) {
    const AttentionConfig& config = parts.config;
    table.add({shown(name), std::to_string(config.num_heads), std::to_string(config.kv_heads()),
               std::to_string(config.key_dim), std::to_string(config.value_size()),
               arrow(config.query_features, config.outputs()),
               terminal::with_thousands(describe(config).total)});
  }
  return table.to_string();
}

// How far the scores of every head are off: known from the singular values left out, and measured.
std::string head_table(const ChangedLayer& changed) {
  Table table({{"head"}, {"score error"}, {"measured"}, {"largest change of a weight"}});
  for (std::size_t head = 0; head < changed.score_errors.size(); ++head) {
    table.add({std::to_string(head), terminal::significant(changed.score_errors[head]),
               terminal::significant(changed.difference.score_errors[head]),
               terminal::significant(changed.difference.weight_changes[head])});
  }
  return table.to_string();
}

std::string input_text() {
  return "on random input of " + std::to_string(RandomInputs::kBatch) + " × " +
         std::to_string(RandomInputs::kTokens) + " tokens";
}

}  // namespace

ConvertReport::ConvertReport(const LayerSource& source, const ConvertTarget& target)
    : source_(source),
      heading_(terminal::printable(source.file().path()) + " → " + target.path + " (" +
               std::string(name_of(target.layout)) + ")\n"),
      target_(target) {}

void ConvertReport::add_change(const std::string& layer, const ChangedLayer& changed) {
  const std::string error = terminal::significant(changed.difference.output_error);
  const bool folded_only = changed.score_errors.empty();
  changes_ += "\n" + shown(layer) + ": the output " +
              (folded_only ? "agrees to " + error : "changes by " + error + " of its size") + ", " +
              input_text() + "\n";
  if (!folded_only) changes_ += head_table(changed);
}

void ConvertReport::add_source(const FoundLayer& layer) {
  const std::vector<std::string> notes = notes_of(layer);
  notes_.insert(notes.begin(), notes.end());
  for (const auto& [key, name] : layer.tensors) used_.insert(name);
}

void ConvertReport::add_name(const std::string& old_name, const std::string& new_name) {
  if (old_name == new_name || !old_name.empty()) return;
  notes_.insert("a Keras model has no layer without a name, so it is called '" + new_name +
                "'; --name '' takes that off on the way back");
}

// Files of Headwise hold float32. The other types become it without a change, but for the longest.
std::string ConvertReport::dtype_notes() const {
  std::set<std::string> types;
  for (const TensorInfo& tensor : source_.file().tensors()) {
    if (used_.contains(tensor.name) && tensor.dtype != "F32") types.insert(tensor.dtype);
  }
  std::string text;
  for (const std::string& type : types) {
    text += "note: " + type + " became F32" +
            (type == "F64" ? ", rounded to the nearest\n" : ", the same numbers in more bits\n");
  }
  return text;
}

std::string ConvertReport::left_out() const {
  const std::size_t count = source_.file().tensors().size() - used_.size();
  if (count == 0) return "";
  return "note: " + std::to_string(count) + " of IN's " +
         std::to_string(source_.file().tensors().size()) +
         " tensors belong to no layer that was converted and are left out\n";
}

std::string ConvertReport::to_string(const std::vector<NamedLayer>& written) const {
  std::string text = heading_ + "\n" + layer_table(written) + changes_ +
                     "\nchecked: read back, every layer gives the same bits " + input_text() + "\n";
  if (target_.container == Container::Npz && !tells_heads(target_.layout)) {
    text += "note: an npz holds no text; whoever reads it has to know the number of heads\n";
  }
  text += dtype_notes() + left_out();
  for (const std::string& note : notes_) text += "note: " + note + "\n";
  return text;
}

}  // namespace headwise::cli
