#include "io/open_reader.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "headwise/io.h"
#include "io/file_bytes.h"
#include "io/foreign_file.h"
#include "io/keras.h"
#include "io/malformed.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/safetensors.h"
#include "io/safetensors_index.h"
#include "io/zip_archive.h"

namespace headwise::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n";
constexpr std::string_view kZip = "PK\3\4";
constexpr std::string_view kEmptyZip = "PK\5\6";

std::string first_bytes(const std::string& path) {
  constexpr std::size_t kMost = 512;
  const FileBytes file = FileBytes::map(path, kMost);
  const auto bytes = file.look(0, file.size());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The format has no magic number, but a length, hardly ever of more than four bytes, and a JSON object.
// The name is asked only to say exactly what is wrong with a damaged file.
bool is_safetensors(std::string_view first, const std::string& path) {
  const bool is_length = first.size() >= 8 && first.substr(4, 4) == std::string_view("\0\0\0\0", 4);
  const bool is_object = first.size() > 8 && first[8] == '{';
  return is_length && (is_object || path.ends_with(".safetensors"));
}

std::unique_ptr<Reader> open_zip(const std::string& path) {
  ZipArchive archive = ZipArchive::open(path);
  if (archive.find("model.weights.h5") != nullptr) return open_keras_model(path);
  const auto& entries = archive.entries();
  const bool has_arrays = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.name.ends_with(".npy");
  });
  if (!has_arrays) {
    if (const auto what = foreign_zip(archive)) malformed("is " + *what);
  }
  return open_npz(path, std::move(archive));
}

}  // namespace

std::string model_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  // As Hugging Face lays out a model; the last is not read, and whoever opens it says why.
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}) {
    const fs::path file = fs::path(path) / name;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  throw FileError(path, "is a folder without model.safetensors or model.safetensors.index.json");
}

std::unique_ptr<Reader> open_reader(const std::string& path) {
  if (path.ends_with(".index.json")) return open_safetensors_index(path);
  const std::string first = first_bytes(path);
  const auto begins_with = [&](std::string_view magic) { return first.starts_with(magic); };
  if (first.empty()) malformed("is empty");
  if (begins_with(kHdf5)) return open_keras_weights(path);
  if (begins_with(kZip) || begins_with(kEmptyZip)) return open_zip(path);
  if (begins_with(kNpyMagic)) return open_npy(path);
  if (is_safetensors(first, path)) return open_safetensors(path);
  if (const auto what = foreign_file(first)) malformed("is " + *what);
  if (path.ends_with(".safetensors")) return open_safetensors(path);
  malformed("is of no known format; safetensors, npy, npz, .weights.h5 and .keras can be read");
}

}  // namespace headwise::io
