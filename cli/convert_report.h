// What headwise convert tells about the file that it wrote.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "convert_changes.h"
#include "convert_target.h"
#include "layer_source.h"

namespace headwise::cli {

class ConvertReport {
 public:
  ConvertReport(const LayerSource& source, const ConvertTarget& target);

  void add_change(const std::string& layer, const ChangedLayer& changed);
  // What stands in IN and not in OUT has to be said: its model's masks, its other numbers.
  void add_source(const FoundLayer& layer);
  void add_name(const std::string& old_name, const std::string& new_name);
  [[nodiscard]] std::string to_string(const std::vector<NamedLayer>& written) const;

 private:
  [[nodiscard]] std::string dtype_notes() const;
  [[nodiscard]] std::string left_out() const;

  const LayerSource& source_;
  std::set<std::string> used_;  // tensors of IN
  std::string heading_;
  ConvertTarget target_;
  std::string changes_;
  std::set<std::string> notes_;  // each once, however many layers have it
};

}  // namespace headwise::cli
