#include "io/npy.h"

#include <algorithm>
#include <cstdint>
#include <istream>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/atomic_file.h"
#include "io/file_bytes.h"
#include "io/malformed.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20U;  // holds whole numbers of every type

class NpyReader final : public Reader {
 public:
  static std::unique_ptr<Reader> open(const std::string& path, FileBytes file) {
    FileBytesSource source(file, 0);
    NpyHeader header = read_npy_header(source);
    require_readable(header);
    const std::uint64_t claimed = header.data_bytes();
    const std::uint64_t rest = file.size() - header.bytes;
    if (claimed != rest) {
      malformed("the npy header claims shape " + header.shape.to_string() + " of " + header.dtype +
                ", " + std::to_string(claimed) + " bytes, but " + std::to_string(rest) + " follow");
    }
    Contents contents{path, "npy", {{"", header.shape, header.dtype}}};
    return std::unique_ptr<Reader>(
        new NpyReader(std::move(contents), std::move(file), std::move(header)));
  }

  [[nodiscard]] AnyTensor read(std::size_t /*index*/) const override {
    TensorDecoder decoder(*header_.numbers, header_.shape);
    file_.visit(header_.bytes, file_.size(),
                [&](std::span<const std::byte> bytes) { decoder.append(bytes); });
    return std::move(decoder).finish();
  }

 private:
  NpyReader(Contents contents, FileBytes file, NpyHeader header)
      : Reader(std::move(contents)), file_(std::move(file)), header_(std::move(header)) {}

  FileBytes file_;
  NpyHeader header_;
};

// What a stream has of `size` bytes, in chunks: memory grows with what arrives, whatever was claimed.
std::vector<std::vector<std::byte>> read_chunks(ByteSource& source, std::uint64_t size) {
  std::vector<std::vector<std::byte>> chunks;
  for (std::uint64_t rest = size; rest > 0; rest -= chunks.back().size()) {
    std::vector<std::byte>& chunk = chunks.emplace_back(std::min<std::uint64_t>(kChunk, rest));
    if (source.read(chunk) != chunk.size()) {
      malformed("ends before the " + std::to_string(size) + " bytes that its npy header claims");
    }
  }
  return chunks;
}

AnyTensor read_stream(ByteSource& source) {
  const NpyHeader header = read_npy_header(source);
  require_readable(header);
  std::vector<std::vector<std::byte>> chunks = read_chunks(source, header.data_bytes());
  TensorDecoder decoder(*header.numbers, header.shape);
  for (std::vector<std::byte>& chunk : chunks) {
    decoder.append(chunk);
    chunk = {};
  }
  return std::move(decoder).finish();
}

// Calls write(std::string_view) for the pieces of the file.
template <typename Write>
void write_npy_pieces(const ConstView& tensor, Write write) {
  if (!tensor.present()) base::fail("write_npy", "tensor", "a view", "none");
  const Tensor copy = Tensor::copy_of(tensor);  // row-major, whatever the strides
  write(npy_header_text(tensor.shape()));
  const auto bytes = std::as_bytes(copy.values());
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

std::unique_ptr<Reader> open_npy(const std::string& path) {
  return NpyReader::open(path, FileBytes::map(path));
}

std::unique_ptr<Reader> parse_npy(const std::string& name, std::span<const std::byte> bytes) {
  return NpyReader::open(name, FileBytes::borrow(bytes));
}

AnyTensor read_npy_numbers(ByteSource& source, const NpyHeader& header) {
  require_readable(header);
  TensorDecoder decoder(*header.numbers, header.shape);
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunk, header.data_bytes()));
  for (std::uint64_t rest = header.data_bytes(); rest > 0; rest -= chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(chunk.size(), rest));
    if (source.read(chunk) != chunk.size()) malformed("ends within its numbers");
    decoder.append(chunk);
  }
  std::byte more{};
  if (source.read({&more, 1}) != 0) malformed("goes on after its numbers");
  return std::move(decoder).finish();
}

}  // namespace headwise::io

namespace headwise {

AnyTensor read_npy(std::istream& stream, const std::string& name) {
  try {
    io::StreamSource source(stream);
    return io::read_stream(source);
  } catch (const io::Malformed& error) {
    throw FileError(name, error.what());
  }
}

void write_npy(std::ostream& stream, const ConstView& tensor) {
  io::write_npy_pieces(tensor, [&](std::string_view piece) {
    stream.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  });
}

void write_npy(const std::string& path, const ConstView& tensor) {
  io::AtomicFile file(path);
  io::write_npy_pieces(tensor, [&](std::string_view piece) { file.append(piece); });
  file.commit();
}

}  // namespace headwise
