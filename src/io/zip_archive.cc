#include "io/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "headwise/io.h"
#include "io/malformed.h"
#include "io/quoted.h"
#include "io/utf8.h"

namespace headwise::io {
namespace {

// Numbers that were trained or drawn shrink to a half at best; arrays of zeros to a thousandth, as
// bombs do. So small ones may, and large ones are refused with the way out.
constexpr std::uint64_t kSuspiciousRatio = 200;
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20U;
constexpr std::uint64_t kDeflateRatio = 1032;  // more is impossible: 258 bytes from two bits

struct Error {
  Error() { zip_error_init(&error); }
  ~Error() { zip_error_fini(&error); }
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;

  zip_error_t error{};
};

void check(const zip_stat_t& status) {
  const std::string name = "entry " + io::quoted(status.name);
  if (!is_entry_name(status.name)) malformed(name + " is named like a path out of the archive");
  if (status.encryption_method != ZIP_EM_NONE) malformed(name + " is encrypted");
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE) {
    malformed(name + " is packed by method " + std::to_string(status.comp_method) +
              "; only stored and deflated entries can be read");
  }
  const bool is_stored = status.comp_method == ZIP_CM_STORE;
  if (is_stored ? status.size != status.comp_size
                : status.size / kDeflateRatio > status.comp_size) {
    malformed(name + " claims to grow from " + std::to_string(status.comp_size) + " to " +
              std::to_string(status.size) + " bytes, which it cannot");
  }
  if (status.size > kSmall && status.size / kSuspiciousRatio > status.comp_size) {
    malformed(name + " would grow from " + std::to_string(status.comp_size) + " to " +
              std::to_string(status.size) +
              " bytes, as a zip bomb does; if it is sound, save it without compression");
  }
}

zip* open_source(zip_source_t* source, Error& error) {
  zip* archive =
      source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error.error);
  if (archive != nullptr) return archive;
  if (source != nullptr) zip_source_free(source);
  malformed(std::string("no readable zip: ") + zip_error_strerror(&error.error));
}

}  // namespace

bool is_entry_name(std::string_view name) noexcept {
  if (!is_utf8(name) || name.starts_with('/')) return false;
  if (name.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos) return false;
  while (!name.empty()) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    if (name.substr(0, slash) == "..") return false;
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return true;
}

void ZipArchive::Close::operator()(zip* archive) const noexcept { zip_discard(archive); }
void ZipArchive::Close::operator()(zip_file* file) const noexcept { (void)zip_fclose(file); }

ZipArchive ZipArchive::open(const std::string& path) {
  std::error_code failure;
  const std::uint64_t bytes = std::filesystem::file_size(path, failure);
  if (failure) throw FileError(path, "cannot be read: " + failure.message());
  Error error;
  return {open_source(zip_source_file_create(path.c_str(), 0, 0, &error.error), error), bytes};
}

ZipArchive ZipArchive::borrow(std::span<const std::byte> memory) {
  Error error;
  return {
      open_source(zip_source_buffer_create(memory.data(), memory.size(), 0, &error.error), error),
      memory.size()};
}

ZipArchive::ZipArchive(zip* archive, std::uint64_t archive_bytes) : archive_(archive) {
  const auto count = static_cast<std::uint64_t>(zip_get_num_entries(archive, 0));
  std::uint64_t packed_bytes = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    zip_stat_t status{};
    if (zip_stat_index(archive, index, 0, &status) != 0) {
      malformed(std::string("no readable zip: ") + zip_strerror(archive));
    }
    check(status);
    if (status.comp_size > archive_bytes - packed_bytes) {
      malformed("its entries have more bytes than the file, as in a zip bomb");
    }
    packed_bytes += status.comp_size;
    entries_.push_back({status.name, status.size, index});
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.name == b.name; });
  if (twice != entries_.end()) malformed("entry " + io::quoted(twice->name) + " appears twice");
}

ZipArchive::~ZipArchive() = default;
ZipArchive::ZipArchive(ZipArchive&&) noexcept = default;

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

ZipArchive::EntrySource::EntrySource(zip* archive, const Entry& entry)
    : file_(zip_fopen_index(archive, entry.index, 0)) {
  if (!file_) malformed("entry " + io::quoted(entry.name) + ": " + zip_strerror(archive));
}

std::size_t ZipArchive::EntrySource::read(std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const zip_int64_t count = zip_fread(file_.get(), to.data() + done, to.size() - done);
    if (count < 0) {
      malformed(std::string("cannot be unpacked: ") +
                zip_error_strerror(zip_file_get_error(file_.get())));
    }
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

}  // namespace headwise::io
