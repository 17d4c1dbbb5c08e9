// A model whose tensors are spread over several safetensors files: its index,
// "….safetensors.index.json", says which file of the same folder has which tensor.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/reader.h"

namespace headwise::io {

struct ShardEntry {
  std::string tensor;
  std::string file;  // a plain name, without a folder
};

// The index's weight_map, sorted by tensor. Throws Malformed unless each tensor appears once and
// each file is a plain name.
std::vector<ShardEntry> parse_safetensors_index(std::string_view json);

// Throws FileError or Malformed unless every shard lies in the index's own folder (or, through a
// symbolic link, among the blobs of the Hugging Face cache that the folder is part of) and has the
// tensors that the index promises.
std::unique_ptr<Reader> open_safetensors_index(const std::string& path);

}  // namespace headwise::io
