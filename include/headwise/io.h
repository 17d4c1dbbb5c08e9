// Files of tensors: safetensors (also sharded by an index), npy, npz, Keras's .weights.h5 and .keras.
//
//   path ──open──► TensorFile ──tensors()──► names, shapes ──read(name)──► Tensor
//   TensorMap ──write_safetensors, write_npz, …──► a file, whole or not at all
//
// Nothing in a file is trusted: lengths, offsets, shapes and sizes are checked before they are used,
// and memory follows the bytes that are really there, not what a header claims. Files know names and
// numbers; what a name means is the business of layouts.h.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headwise/tensor.h"

namespace headwise {

// A file cannot be read or written. what() reads "model.safetensors: what is wrong".
class FileError : public std::runtime_error {
 public:
  FileError(std::string path, const std::string& problem);
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

struct TensorInfo {
  std::string name;
  Shape shape;
  // In safetensors' words whatever the format: "F32", "BF16", "I64", "BOOL". What cannot be read is
  // listed too, if need be in the format's own words: "F8_E4M3", numpy's "|O".
  std::string dtype;
};

// Numbers as they are meant: floats (F64, F16 and BF16 become float32), integers, truth values.
using AnyTensor = std::variant<Tensor, IndexTensor, BoolTensor>;
using Metadata = std::map<std::string, std::string>;

namespace io {
class Reader;
}

// An open file. Immutable: any number of threads may read from it at the same time. safetensors and
// npy are mapped into memory: do not shorten a file in place while it is read (programs that replace
// files, as write_… below, do no harm).
class TensorFile {
 public:
  // The format is told by the file's content, not by its name. A path that ends in ".index.json" is
  // a sharded safetensors file; its shards must lie beside it. A folder stands for its
  // model.safetensors or model.safetensors.index.json. Throws FileError.
  static TensorFile open(const std::string& path);
  ~TensorFile();
  TensorFile(TensorFile&&) noexcept;
  TensorFile& operator=(TensorFile&&) noexcept;

  [[nodiscard]] const std::string& path() const noexcept;
  // "safetensors", "npy", "npz", "keras weights" (.weights.h5), "keras model" (.keras)
  [[nodiscard]] std::string_view format() const noexcept;
  // Sorted by name. The one tensor of an npy file has the name "".
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  // safetensors: its __metadata__. HDF5: text attributes, as "group/path@attribute". .keras: also
  // its documents, under "config.json" and "metadata.json".
  [[nodiscard]] const Metadata& metadata() const noexcept;

  // Both throw FileError, and OutOfMemory. The first wants floating-point numbers.
  [[nodiscard]] Tensor read(const std::string& name) const;
  [[nodiscard]] AnyTensor read_any(const std::string& name) const;

 private:
  explicit TensorFile(std::unique_ptr<const io::Reader> reader);
  std::unique_ptr<const io::Reader> reader_;
};

// A single array from a stream, e.g. standard input; `name` is for messages. Memory grows with what
// arrives; what follows the array stays in the stream.
AnyTensor read_npy(std::istream& stream, const std::string& name);
void write_npy(std::ostream& stream, const ConstView& tensor);  // the stream says if it failed

// Each makes the whole file beside `path`, synchronises it with the disk and then puts it in place:
// whatever interrupts it, `path` is as it was or complete. Permissions and symbolic links stay as they
// are; a pipe or a device is written to. The same tensors give the same bytes. Throw FileError, and
// ArgumentError for names that the format cannot hold.
void write_npy(const std::string& path, const ConstView& tensor);
// `check` looks at the complete new file before it is put in place; what it throws leaves `path` as it
// was.
using FileCheck = std::function<void(const TensorFile& written)>;
void write_npz(const std::string& path, const TensorMap& tensors, const FileCheck& check = {});
void write_safetensors(const std::string& path, const TensorMap& tensors,
                       const Metadata& metadata = {}, const FileCheck& check = {});
// Names are paths ("layers/dense/vars/0"); metadata "group/path@attribute" becomes an attribute.
void write_keras_weights(const std::string& path, const TensorMap& tensors,
                         const Metadata& metadata = {}, const FileCheck& check = {});
// A .keras: the same in a zip, beside the documents "config.json" and "metadata.json" of `metadata`.
void write_keras_model(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
                       const FileCheck& check = {});

// Any other bytes, put in place the same way.
void write_file(const std::string& path, std::string_view bytes);

// For a program's handler of SIGINT, SIGTERM and the like, which has to end the process after it: some
// file systems know no files without a name, so that the new file of a write_… above that goes on has
// one. Removes it; no write_… gets any further. Async-signal-safe.
void remove_unfinished_files() noexcept;

}  // namespace headwise
