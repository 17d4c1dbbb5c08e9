// A zip file, looked at with suspicion. Entries may be stored or deflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"

struct zip;
struct zip_file;

namespace headwise::io {

// Whether an entry may be called so: UTF-8, and no path that leads out of the archive.
bool is_entry_name(std::string_view name) noexcept;

class ZipArchive {
 public:
  struct Entry {
    std::string name;
    std::uint64_t size = 0;  // unpacked
    std::uint64_t index = 0;
  };

  // Both throw FileError or Malformed: for what is no zip, for entries that are encrypted, packed by
  // another method or named like a path out of the archive, and for bombs: an entry that unpacks to
  // far more than it takes, or entries that share their bytes.
  static ZipArchive open(const std::string& path);
  static ZipArchive borrow(std::span<const std::byte> memory);  // which must stay

  ~ZipArchive();
  ZipArchive(ZipArchive&&) noexcept;

  // Sorted by name, each name once.
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] const Entry* find(std::string_view name) const noexcept;  // null: there is none

  // Calls use(ByteSource&) for one of entries(); calls of several threads wait for each other.
  // Reading to the end checks the entry's size and checksum.
  template <typename Use>
  [[nodiscard]] auto read(const Entry& entry, Use use) const {
    const std::scoped_lock lock(*mutex_);
    EntrySource source(archive_.get(), entry);
    return use(source);
  }

 private:
  struct Close {
    void operator()(zip* archive) const noexcept;
    void operator()(zip_file* file) const noexcept;
  };
  class EntrySource final : public ByteSource {
   public:
    EntrySource(zip* archive, const Entry& entry);
    std::size_t read(std::span<std::byte> to) override;

   private:
    std::unique_ptr<zip_file, Close> file_;
  };

  ZipArchive(zip* archive, std::uint64_t archive_bytes);

  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // libzip has none
  std::unique_ptr<zip, Close> archive_;
  std::vector<Entry> entries_;
};

}  // namespace headwise::io
