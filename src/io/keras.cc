#include "io/keras.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "io/byte_source.h"
#include "io/file_bytes.h"
#include "io/hdf5.h"
#include "io/malformed.h"
#include "io/quoted.h"
#include "io/tensor_decoder.h"
#include "io/utf8.h"
#include "io/zip_archive.h"

namespace headwise::io {
namespace {

// The configuration of a model with a thousand layers takes two megabytes.
constexpr std::uint64_t kMostDocumentBytes = std::uint64_t{64} << 20U;

// ---- Entries of a zip ------------------------------------------------------------------------

// Memory grows with the bytes that come, not with those that are promised.
std::vector<std::byte> read_entry(const ZipArchive& archive, const ZipArchive::Entry& entry) {
  std::vector<std::byte> bytes;
  archive.read(entry, [&](ByteSource& source) {
    constexpr std::uint64_t kFirst = std::uint64_t{1} << 20U;
    while (bytes.size() < entry.size) {
      const std::uint64_t done = bytes.size();
      bytes.resize(std::min(entry.size, std::max(kFirst, 2 * done)));
      const std::size_t count = source.read(std::span(bytes).subspan(done));
      if (done + count < bytes.size()) malformed("entry " + quoted(entry.name) + " ends early");
    }
    std::byte none{};
    if (source.read({&none, 1}) > 0) malformed("entry " + quoted(entry.name) + " does not end");
  });
  return bytes;
}

Metadata read_documents(const ZipArchive& archive) {
  Metadata documents;
  for (const char* name : {kKerasConfig, kKerasMetadata}) {
    const ZipArchive::Entry* entry = archive.find(name);
    if (entry == nullptr) continue;
    if (entry->size > kMostDocumentBytes) malformed("entry " + quoted(name) + " is too large");
    const std::vector<std::byte> bytes = read_entry(archive, *entry);
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_utf8(text)) malformed("entry " + quoted(name) + " is no UTF-8");
    documents.emplace(name, std::move(text));
  }
  return documents;
}

// ---- The reader ------------------------------------------------------------------------------

// Keeps the HDF5 file, be it mapped or unpacked.
struct Weights {
  std::unique_ptr<const std::vector<std::byte>> unpacked;
  FileBytes file;
};

class KerasReader final : public Reader {
 public:
  static std::unique_ptr<Reader> make(const std::string& path, std::string_view format,
                                      Weights weights, Metadata documents) {
    Hdf5Contents listed = list_hdf5(weights.file.look(0, weights.file.size()));
    Contents contents{path, format, {}, std::move(listed.attributes)};
    contents.metadata.merge(documents);
    for (const Hdf5Dataset& dataset : listed.datasets) contents.tensors.push_back(dataset.info);
    return std::unique_ptr<Reader>(
        new KerasReader(std::move(contents), std::move(weights), std::move(listed.datasets)));
  }

  [[nodiscard]] AnyTensor read(std::size_t index) const override {
    const Hdf5Dataset& dataset = datasets_[index];
    if (!dataset.format) malformed("numbers of type " + dataset.info.dtype + " cannot be read");
    TensorDecoder decoder(*dataset.format, dataset.info.shape);
    const auto append = [&](Bytes bytes) { decoder.append(bytes); };
    if (dataset.offset) {
      weights_.file.visit(*dataset.offset, *dataset.offset + dataset.bytes, append);
    } else {
      read_hdf5(weights_.file.look(0, weights_.file.size()), dataset, append);
    }
    return std::move(decoder).finish();
  }

 private:
  KerasReader(Contents contents, Weights weights, std::vector<Hdf5Dataset> datasets)
      : Reader(std::move(contents)), weights_(std::move(weights)), datasets_(std::move(datasets)) {}

  Weights weights_;
  std::vector<Hdf5Dataset> datasets_;
};

std::unique_ptr<Reader> make_weights(const std::string& path, FileBytes file) {
  return KerasReader::make(path, "keras weights", {nullptr, std::move(file)}, {});
}

std::unique_ptr<Reader> make_model(const std::string& path, const ZipArchive& archive) {
  const ZipArchive::Entry* entry = archive.find(kKerasWeights);
  if (entry == nullptr) malformed("has no entry " + quoted(kKerasWeights));
  auto unpacked = std::make_unique<const std::vector<std::byte>>(read_entry(archive, *entry));
  FileBytes file = FileBytes::borrow(*unpacked);
  return KerasReader::make(path, "keras model", {std::move(unpacked), std::move(file)},
                           read_documents(archive));
}

}  // namespace

std::unique_ptr<Reader> open_keras_weights(const std::string& path) {
  return make_weights(path, FileBytes::map(path));
}

std::unique_ptr<Reader> parse_keras_weights(const std::string& name,
                                            std::span<const std::byte> bytes) {
  return make_weights(name, FileBytes::borrow(bytes));
}

std::unique_ptr<Reader> open_keras_model(const std::string& path) {
  return make_model(path, ZipArchive::open(path));
}

std::unique_ptr<Reader> parse_keras_model(const std::string& name,
                                          std::span<const std::byte> bytes) {
  return make_model(name, ZipArchive::borrow(bytes));
}

}  // namespace headwise::io
