// Bytes that come one after the other: of a stream, an entry of a zip, a mapped file.
#pragma once

#include <cstddef>
#include <istream>
#include <span>

namespace headwise::io {

class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills `to` with the next bytes and returns how many there were: fewer only at the end. Throws
  // Malformed for bytes that cannot be read.
  virtual std::size_t read(std::span<std::byte> to) = 0;
};

class StreamSource final : public ByteSource {
 public:
  explicit StreamSource(std::istream& stream) : stream_(stream) {}
  std::size_t read(std::span<std::byte> to) override {
    stream_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
    return static_cast<std::size_t>(stream_.gcount());
  }

 private:
  std::istream& stream_;
};

}  // namespace headwise::io
