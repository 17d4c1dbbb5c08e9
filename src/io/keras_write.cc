// Files that the real Keras loads: weights as it would have stored them itself.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "headwise/io.h"
#include "io/atomic_file.h"
#include "io/hdf5.h"
#include "io/hdf5_contents.h"
#include "io/hdf5_names.h"
#include "io/keras.h"
#include "io/malformed.h"
#include "io/quoted.h"
#include "io/utf8.h"
#include "io/zip_writer.h"

namespace headwise {
namespace {

using io::Bytes;

// What the reader accepts.
bool is_path(std::string_view path) {
  const std::vector<std::string_view> steps = io::hdf5_steps(path);
  return path.size() <= io::kMaxHdf5PathBytes && steps.size() < io::kMaxHdf5Depth &&
         io::is_utf8(path) && std::all_of(steps.begin(), steps.end(), io::is_hdf5_name);
}

// A tensor's name is a path, and none is a group on the path of another.
void check_tensors(const char* function, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (name.empty() || !is_path(name)) {
      base::fail(function, "tensors", "names like 'layers/dense/vars/0'", io::quoted(name));
    }
    // Whatever lies below it would come next among all that is sorted behind "name/".
    const auto below = tensors.lower_bound(name + "/");
    if (below != tensors.end() && below->first.starts_with(name + "/")) {
      base::fail(function, "tensors", "no tensor below another",
                 io::quoted(name) + " and " + io::quoted(below->first));
    }
  }
}

// "group/path@attribute" of the root, of a group or of a tensor.
void check_attribute(const char* function, const TensorMap& tensors, const std::string& key,
                     const std::string& text) {
  const std::size_t at = key.rfind('@');
  const bool is_key = at != std::string::npos && at + 1 < key.size() && io::is_utf8(key) &&
                      is_path(key.substr(0, at)) && key.find('\0') == std::string::npos;
  if (!is_key)
    base::fail(function, "metadata", "keys like 'group/path@attribute'", io::quoted(key));
  const bool is_text = io::is_utf8(text) && text.find('\0') == std::string::npos &&
                       text.size() <= io::kMaxHdf5TextBytes;
  if (!is_text) base::fail(function, "metadata", "texts in UTF-8", io::quoted(text));
  const std::string path = key.substr(0, at);
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (tensors.contains(path.substr(0, slash))) {
      base::fail(function, "metadata", "no group below a tensor", io::quoted(key));
    }
  }
}

void check_names(const char* function, const TensorMap& tensors, const Metadata& attributes) {
  check_tensors(function, tensors);
  for (const auto& [key, text] : attributes) check_attribute(function, tensors, key, text);
}

void write_weights(const std::string& path, const TensorMap& tensors, const Metadata& attributes,
                   const std::function<void(Bytes)>& receive) {
  try {
    io::write_hdf5(tensors, attributes, receive);
  } catch (const io::Malformed& error) {
    throw FileError(path, error.what());
  }
}

}  // namespace

void write_keras_weights(const std::string& path, const TensorMap& tensors,
                         const Metadata& metadata, const FileCheck& check) {
  check_names("write_keras_weights", tensors, metadata);
  io::AtomicFile file(path);
  write_weights(path, tensors, metadata, [&](Bytes piece) { file.append(piece); });
  io::commit(file, check);
}

void write_keras_model(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
                       const FileCheck& check) {
  constexpr const char* kFunction = "write_keras_model";
  Metadata attributes = metadata;
  std::vector<std::pair<const char*, std::string>> documents;
  for (const char* name : {io::kKerasMetadata, io::kKerasConfig}) {  // Keras's own order
    const auto document = attributes.extract(name);
    if (!document) base::fail(kFunction, "metadata", std::string("a document ") + name, "none");
    documents.emplace_back(name, std::move(document.mapped()));
  }
  check_names(kFunction, tensors, attributes);

  std::vector<std::byte> weights;
  write_weights(path, tensors, attributes,
                [&](Bytes piece) { weights.insert(weights.end(), piece.begin(), piece.end()); });
  io::AtomicFile file(path);
  io::ZipWriter zip(file);
  for (const auto& [name, text] : documents) zip.add(name, std::as_bytes(std::span(text)));
  zip.add(io::kKerasWeights, weights);
  zip.finish();
  io::commit(file, check);
}

}  // namespace headwise
