#include "io/npz.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/atomic_file.h"
#include "io/malformed.h"
#include "io/npy.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct Array {
  std::string name;
  ZipArchive::Entry entry;
  NpyHeader header;
};

Array read_array(const ZipArchive& archive, const ZipArchive::Entry& entry) {
  try {
    Array array{entry.name.substr(0, entry.name.size() - kSuffix.size()), entry,
                archive.read(entry, [](ByteSource& source) { return read_npy_header(source); })};
    const NpyHeader& header = array.header;
    if (header.numbers && header.bytes + header.data_bytes() != entry.size) {
      malformed("the npy header claims shape " + header.shape.to_string() + " of " + header.dtype +
                ", " + std::to_string(header.data_bytes()) + " bytes, but " +
                std::to_string(entry.size - std::min(header.bytes, entry.size)) + " follow");
    }
    return array;
  } catch (const Malformed& error) {
    malformed("entry " + io::quoted(entry.name) + ": " + error.what());
  }
}

class NpzReader final : public Reader {
 public:
  static std::unique_ptr<Reader> open(const std::string& path, ZipArchive archive) {
    std::vector<Array> arrays;
    for (const ZipArchive::Entry& entry : archive.entries()) {
      if (entry.name.ends_with(kSuffix)) arrays.push_back(read_array(archive, entry));
    }
    std::sort(arrays.begin(), arrays.end(),
              [](const Array& a, const Array& b) { return a.name < b.name; });
    Contents contents{path, "npz", {}};
    for (const Array& array : arrays) {
      contents.tensors.push_back({array.name, array.header.shape, array.header.dtype});
    }
    return std::unique_ptr<Reader>(
        new NpzReader(std::move(contents), std::move(archive), std::move(arrays)));
  }

  [[nodiscard]] AnyTensor read(std::size_t index) const override {
    const Array& array = arrays_[index];
    require_readable(array.header);
    return archive_.read(array.entry, [&](ByteSource& source) {
      (void)read_npy_header(source);  // skipped: what was checked when the file was opened counts
      return read_npy_numbers(source, array.header);
    });
  }

 private:
  NpzReader(Contents contents, ZipArchive archive, std::vector<Array> arrays)
      : Reader(std::move(contents)), archive_(std::move(archive)), arrays_(std::move(arrays)) {}

  ZipArchive archive_;
  std::vector<Array> arrays_;  // in the order of tensors()
};

}  // namespace

std::unique_ptr<Reader> open_npz(const std::string& path, ZipArchive archive) {
  return NpzReader::open(path, std::move(archive));
}

void write_npz(const ZipWriter::WriteAt& write_at, const TensorMap& tensors) {
  std::vector<std::string> headers;  // until all is written
  headers.reserve(tensors.size());
  ZipWriter zip(write_at);
  for (const auto& [name, tensor] : tensors) {
    const std::string entry = name + std::string(kSuffix);
    if (!is_entry_name(entry)) {
      base::fail("write_npz", "tensors", "names in UTF-8 that are no paths out of the archive",
                 io::quoted(name));
    }
    headers.push_back(npy_header_text(tensor.shape()));
    zip.add(entry, std::as_bytes(std::span(headers.back())), std::as_bytes(tensor.values()));
  }
  zip.finish();
}

}  // namespace headwise::io

namespace headwise {

void write_npz(const std::string& path, const TensorMap& tensors, const FileCheck& check) {
  io::AtomicFile file(path);
  try {
    io::write_npz([&](auto offset, auto bytes) { file.write_at(offset, bytes); }, tensors);
  } catch (const io::Malformed& error) {  // without libzip
    throw FileError(path, error.what());
  }
  io::commit(file, check);
}

}  // namespace headwise
