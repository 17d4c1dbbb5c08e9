#include "io/foreign_file.h"

#include <algorithm>
#include <array>

namespace headwise::io {
namespace {

using namespace std::string_view_literals;

constexpr const char* kPickle =
    "a pickle, which may run any program when it is loaded, so Headwise does not; load it in "
    "Python and save it with safetensors.torch.save_file";

struct Known {
  std::size_t offset;
  std::string_view bytes;
  const char* what;
};
// The longest first where one begins as another does.
constexpr std::array<Known, 24> kKnown = {{
    {0, "GGUF"sv, "a GGUF model; convert it to safetensors first"},
    {0, "version https://git-lfs"sv,
     "only a Git LFS pointer to the file; fetch the file itself with git lfs pull"},
    {0, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv, kPickle},
    {0, "\x80\x02"sv, kPickle},
    {0, "\x80\x03"sv, kPickle},
    {0, "\x80\x04"sv, kPickle},
    {0, "\x80\x05"sv, kPickle},
    {4, "TFL3"sv, "a TensorFlow Lite model; save the weights of the original model"},
    {0, "\x1f\x8b"sv, "compressed by gzip; unpack it first"},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd; unpack it first"},
    {0, "\xfd\x37zXZ\0"sv, "compressed by xz; unpack it first"},
    {0, "BZh"sv, "compressed by bzip2; unpack it first"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive; unpack it first"},
    {257, "ustar"sv, "a tar archive; unpack it first"},
    {0, "MATLAB 5.0 MAT-file"sv, "a MATLAB file; save the arrays as npy"},
    {0, "PAR1"sv, "a Parquet table"},
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG picture"},
    {0, "\xff\xd8\xff"sv, "a JPEG picture"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "\177ELF"sv, "a program"},
    {0, "<!DOCTYPE"sv, "a web page, perhaps the answer of a server instead of the file"},
    {0, "<!doctype"sv, "a web page, perhaps the answer of a server instead of the file"},
    {0, "<html"sv, "a web page, perhaps the answer of a server instead of the file"},
    {0, "{"sv, "a JSON text; the index of a sharded model has a name that ends in .index.json"},
}};

}  // namespace

std::optional<std::string> foreign_file(std::string_view first_bytes) {
  for (const Known& known : kKnown) {
    if (first_bytes.size() <= known.offset) continue;
    if (first_bytes.substr(known.offset).starts_with(known.bytes)) return known.what;
  }
  return std::nullopt;
}

std::optional<std::string> foreign_zip(const ZipArchive& archive) {
  const auto& entries = archive.entries();
  const bool is_torch = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.name == "data.pkl" || entry.name.ends_with("/data.pkl");
  });
  if (is_torch) return std::string("a PyTorch file with ") + kPickle;
  if (!entries.empty()) return "a zip archive without npy arrays or Keras weights";
  return std::nullopt;
}

}  // namespace headwise::io
