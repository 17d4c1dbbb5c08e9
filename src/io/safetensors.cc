#include "io/safetensors.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "io/file_bytes.h"
#include "io/malformed.h"
#include "io/safetensors_header.h"
#include "io/tensor_decoder.h"

namespace headwise::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Where the data begins, after the length and the header.
std::uint64_t data_begin(const FileBytes& file) {
  if (file.size() < kLengthBytes) malformed("too short for a safetensors file");
  std::uint64_t length = 0;
  std::memcpy(&length, file.look(0, kLengthBytes).data(), kLengthBytes);
  if (length == 0) malformed("the header has length 0");
  if (length > kLargestHeader) {
    malformed("the header claims " + std::to_string(length) + " bytes, more than " +
              std::to_string(kLargestHeader));
  }
  const std::uint64_t rest = file.size() - kLengthBytes;
  if (length > rest) {
    malformed("the header claims " + std::to_string(length) + " bytes, but the file has only " +
              std::to_string(rest) + " more: it is truncated or damaged");
  }
  return kLengthBytes + length;
}

SafetensorsHeader read_header(const FileBytes& file, std::uint64_t begin) {
  const std::string_view text = as_text(file.look(kLengthBytes, begin));
  if (text.front() != '{') malformed("the header does not begin with {");
  return parse_safetensors_header(text, file.size() - begin);
}

class SafetensorsReader final : public Reader {
 public:
  static std::unique_ptr<Reader> open(const std::string& path, FileBytes file) {
    const std::uint64_t begin = data_begin(file);
    SafetensorsHeader header = read_header(file, begin);
    Contents contents{path, "safetensors", {}, std::move(header.metadata)};
    std::vector<Place> places;
    contents.tensors.reserve(header.entries.size());
    places.reserve(header.entries.size());
    for (SafetensorsEntry& entry : header.entries) {
      contents.tensors.push_back(std::move(entry.info));
      places.push_back({begin + entry.begin, begin + entry.end});
    }
    return std::unique_ptr<Reader>(
        new SafetensorsReader(std::move(contents), std::move(file), std::move(places)));
  }

  [[nodiscard]] AnyTensor read(std::size_t index) const override {
    const TensorInfo& info = tensors()[index];
    const auto type = number_type_named(info.dtype);
    if (!type) malformed("numbers of type " + info.dtype + " cannot be read");
    TensorDecoder decoder({.type = *type}, info.shape);
    file_.visit(places_[index].begin, places_[index].end,
                [&](std::span<const std::byte> bytes) { decoder.append(bytes); });
    return std::move(decoder).finish();
  }

 private:
  struct Place {  // in the file
    std::uint64_t begin;
    std::uint64_t end;
  };

  SafetensorsReader(Contents contents, FileBytes file, std::vector<Place> places)
      : Reader(std::move(contents)), file_(std::move(file)), places_(std::move(places)) {}

  FileBytes file_;
  std::vector<Place> places_;  // in the order of tensors()
};

}  // namespace

std::unique_ptr<Reader> open_safetensors(const std::string& path) {
  return SafetensorsReader::open(path, FileBytes::map(path));
}

std::unique_ptr<Reader> parse_safetensors(const std::string& name,
                                          std::span<const std::byte> bytes) {
  return SafetensorsReader::open(name, FileBytes::borrow(bytes));
}

}  // namespace headwise::io
