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
  void add_notes(const FoundLayer& layer);
  [[nodiscard]] std::string to_string(const std::vector<NamedLayer>& written) const;

 private:
  std::string heading_;
  ConvertTarget target_;
  std::string changes_;
  std::set<std::string> notes_;  // each once, however many layers have it
};

}  // namespace headwise::cli
