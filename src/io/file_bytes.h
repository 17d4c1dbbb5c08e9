// The bytes of a file, mapped into memory: opening is free, and what is never read costs nothing.
//
// A mapped file that another program makes shorter would end this one with SIGBUS. So its length is
// asked again before every few megabytes are looked at (a mapped file is copied at 11 GB/s with or
// without); only one that shrinks in the very moment it is copied can still do that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "io/byte_source.h"
#include "io/file_descriptor.h"

namespace headwise::io {

class FileBytes {
 public:
  // The file, or its first bytes. Throws FileError.
  static FileBytes map(const std::string& path,
                       std::size_t most = std::numeric_limits<std::size_t>::max());
  static FileBytes borrow(std::span<const std::byte> memory);  // which must stay

  ~FileBytes();
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }

  // Bytes [begin, end), which must be within the file. Throws Malformed if the file became shorter.
  // Look at them at once.
  [[nodiscard]] std::span<const std::byte> look(std::uint64_t begin, std::uint64_t end) const;

  // Calls visit(std::span<const std::byte>) for [begin, end), some megabytes at a time.
  template <typename Visit>
  void visit(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    constexpr std::uint64_t kWindow = std::uint64_t{4} << 20U;
    for (; end - begin > kWindow; begin += kWindow) visit(look(begin, begin + kWindow));
    visit(look(begin, end));
  }

 private:
  FileBytes(FileDescriptor file, std::span<const std::byte> bytes)
      : file_(std::move(file)), bytes_(bytes) {}

  FileDescriptor file_;  // none: borrowed memory
  std::span<const std::byte> bytes_;
};

// The same as a source of bytes.
class FileBytesSource final : public ByteSource {
 public:
  FileBytesSource(const FileBytes& bytes, std::uint64_t begin) : bytes_(bytes), position_(begin) {}
  std::size_t read(std::span<std::byte> to) override;

 private:
  const FileBytes& bytes_;
  std::uint64_t position_;
};

}  // namespace headwise::io
