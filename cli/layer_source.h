// A file with attention layers in it, as run, inspect, convert and view open it.
#pragma once

#include <string>
#include <vector>

#include "headwise/io.h"
#include "headwise/layouts.h"

namespace headwise::cli {

class LayerSource {
 public:
  // The sizes of `hints` count for layers of which neither the file nor a config.json beside it tells
  // them. Whatever is wrong with the file is a FileError.
  static LayerSource open(const std::string& path, const LayerHints& hints);

  [[nodiscard]] const TensorFile& file() const { return file_; }
  [[nodiscard]] const std::vector<FoundLayer>& layers() const { return layers_; }

  // By its whole name, its place in the list (0, 1, …) or a part of the name that no other has. "":
  // the only layer. Throws UsageError that lists the names, FileError if there is no layer at all.
  [[nodiscard]] const FoundLayer& choose(const std::string& name) const;

  // FileError if the number of heads is not known, UsageError if `hints` said another.
  [[nodiscard]] const AttentionConfig& config_of(const FoundLayer& layer) const;

  // The same, and FileError if the tensors do not fit.
  [[nodiscard]] LayerParts read(const FoundLayer& layer) const;

 private:
  LayerSource(TensorFile file, const LayerHints& given) : file_(std::move(file)), given_(given) {}
  TensorFile file_;
  LayerHints given_;
  std::vector<FoundLayer> layers_;
};

// "layer 'encoder.0' (torch)": for messages.
std::string title_of(const FoundLayer& layer);

// Its notes, which may hold its name, as a terminal may show them.
std::vector<std::string> notes_of(const FoundLayer& layer);

}  // namespace headwise::cli
