// Stands in for zip_archive.cc and zip_writer.cc, where libzip is missing.
#include "io/malformed.h"
#include "io/zip_archive.h"
#include "io/zip_writer.h"

namespace headwise::io {

namespace {

[[noreturn]] void refuse() {
  malformed("zip files (.npz, .keras) cannot be read or written: libzip is missing");
}

}  // namespace

bool is_entry_name(std::string_view /*name*/) noexcept { return true; }

ZipArchive ZipArchive::open(const std::string& /*path*/) { refuse(); }
ZipArchive ZipArchive::borrow(std::span<const std::byte> /*memory*/) { refuse(); }
ZipArchive::~ZipArchive() = default;
ZipArchive::ZipArchive(ZipArchive&&) noexcept = default;
const ZipArchive::Entry* ZipArchive::find(std::string_view /*name*/) const noexcept {
  return nullptr;
}
void ZipArchive::Close::operator()(zip* /*archive*/) const noexcept {}
void ZipArchive::Close::operator()(zip_file* /*file*/) const noexcept {}
ZipArchive::EntrySource::EntrySource(zip* /*archive*/, const Entry& /*entry*/) { refuse(); }
std::size_t ZipArchive::EntrySource::read(std::span<std::byte> /*to*/) { refuse(); }

struct ZipWriter::Sink {};

ZipWriter::ZipWriter(WriteAt /*write_at*/) { refuse(); }
ZipWriter::~ZipWriter() = default;
void ZipWriter::add(const std::string& /*name*/, std::span<const std::byte> /*head*/,
                    std::span<const std::byte> /*rest*/) {
  refuse();
}
void ZipWriter::finish() { refuse(); }

}  // namespace headwise::io
