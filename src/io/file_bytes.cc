#include "io/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "headwise/io.h"
#include "io/malformed.h"

namespace headwise::io {

FileBytes FileBytes::map(const std::string& path, std::size_t most) {
  const auto fail = [&] {
    throw FileError(path, "cannot be read: " + std::generic_category().message(errno));
  };
  // Without O_NONBLOCK opening a pipe would wait for somebody to write to it.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) fail();
  if (!S_ISREG(status.st_mode)) throw FileError(path, "is not a regular file");
  const std::size_t size = std::min(most, static_cast<std::size_t>(status.st_size));
  if (size == 0) return {std::move(file), {}};  // nothing cannot be mapped
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) fail();
  return {std::move(file), {static_cast<const std::byte*>(memory), size}};
}

FileBytes FileBytes::borrow(std::span<const std::byte> memory) { return {{}, memory}; }

FileBytes::FileBytes(FileBytes&& other) noexcept
    : file_(std::move(other.file_)), bytes_(std::exchange(other.bytes_, {})) {}

FileBytes::~FileBytes() {
  if (!file_.is_open() || bytes_.empty()) return;
  (void)::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::span<const std::byte> FileBytes::look(std::uint64_t begin, std::uint64_t end) const {
  if (file_.is_open()) {
    struct stat status {};
    const bool is_there =
        ::fstat(file_.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= end;
    if (!is_there) malformed("became shorter while it was open");
  }
  return bytes_.subspan(begin, end - begin);
}

std::size_t FileBytesSource::read(std::span<std::byte> to) {
  const std::uint64_t count = std::min<std::uint64_t>(to.size(), bytes_.size() - position_);
  bytes_.visit(position_, position_ + count, [&](std::span<const std::byte> part) {
    std::copy(part.begin(), part.end(), to.begin());
    to = to.subspan(part.size());
  });
  position_ += count;
  return count;
}

}  // namespace headwise::io
