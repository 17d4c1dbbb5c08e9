#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/io.h"
#include "io/malformed.h"
#include "io/open_reader.h"
#include "io/quoted.h"
#include "io/reader.h"

namespace headwise {
namespace {

constexpr auto kByName = [](const TensorInfo& info, std::string_view name) {
  return std::string_view(info.name) < name;
};

// The place of a name in a sorted list, or its size.
std::size_t place_of(const std::vector<TensorInfo>& tensors, std::string_view name) {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name, kByName);
  const bool is_there = found != tensors.end() && found->name == name;
  return is_there ? static_cast<std::size_t>(found - tensors.begin()) : tensors.size();
}

// The one tensor of an npy file has no name.
std::string about(const std::string& name) {
  return name.empty() ? "" : "tensor " + io::quoted(name) + ": ";
}

}  // namespace

TensorFile TensorFile::open(const std::string& path) {
  const std::string file = io::model_file(path);
  try {
    return TensorFile(io::open_reader(file));
  } catch (const io::Malformed& error) {
    throw FileError(file, error.what());
  }
}

TensorFile::TensorFile(std::unique_ptr<const io::Reader> reader) : reader_(std::move(reader)) {}
TensorFile::~TensorFile() = default;
TensorFile::TensorFile(TensorFile&&) noexcept = default;
TensorFile& TensorFile::operator=(TensorFile&&) noexcept = default;

const std::string& TensorFile::path() const noexcept { return reader_->path(); }
std::string_view TensorFile::format() const noexcept { return reader_->format(); }
const std::vector<TensorInfo>& TensorFile::tensors() const noexcept { return reader_->tensors(); }
const Metadata& TensorFile::metadata() const noexcept { return reader_->metadata(); }

bool TensorFile::contains(std::string_view name) const noexcept {
  return place_of(tensors(), name) < tensors().size();
}

AnyTensor TensorFile::read_any(const std::string& name) const {
  const std::size_t index = place_of(tensors(), name);
  if (index == tensors().size()) throw FileError(path(), "has no tensor " + io::quoted(name));
  try {
    return reader_->read(index);
  } catch (const io::Malformed& error) {
    throw FileError(path(), about(name) + error.what());
  }
}

Tensor TensorFile::read(const std::string& name) const {
  AnyTensor tensor = read_any(name);
  if (auto* floats = std::get_if<Tensor>(&tensor)) return std::move(*floats);
  const TensorInfo& info = tensors()[place_of(tensors(), name)];
  throw FileError(path(), about(name) + "expected floating-point numbers, got " + info.dtype);
}

}  // namespace headwise
