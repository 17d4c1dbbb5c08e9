// A zip file of stored entries, written with the same bytes every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "io/atomic_file.h"

struct zip;

namespace headwise::io {

class ZipWriter {
 public:
  // Writes these bytes at this offset, perhaps over others; may throw.
  using WriteAt = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  explicit ZipWriter(WriteAt write_at);
  explicit ZipWriter(AtomicFile& file)
      : ZipWriter([&file](auto offset, auto bytes) { file.write_at(offset, bytes); }) {}
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // An entry that begins with `head` and goes on with `rest`; both are read by finish().
  void add(const std::string& name, std::span<const std::byte> head,
           std::span<const std::byte> rest = {});

  // Writes everything.
  void finish();

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;
  zip* archive_ = nullptr;
};

}  // namespace headwise::io
