#include "io/zip_writer.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace headwise::io {

// What libzip writes to: it asks for everything through one function.
struct ZipWriter::Sink {
  explicit Sink(WriteAt to) : write_at(std::move(to)) { zip_error_init(&error); }
  ~Sink() { zip_error_fini(&error); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  static zip_int64_t call(void* sink, void* data, zip_uint64_t bytes, zip_source_cmd_t command) {
    return static_cast<Sink*>(sink)->handle(data, bytes, command);
  }
  zip_int64_t handle(void* data, zip_uint64_t bytes, zip_source_cmd_t command);
  zip_int64_t write(std::span<const std::byte> bytes);

  WriteAt write_at;
  std::uint64_t position = 0;
  std::uint64_t size = 0;
  std::exception_ptr failure;  // must not pass through C
  zip_error_t error{};
};

zip_int64_t ZipWriter::Sink::write(std::span<const std::byte> bytes) {
  try {
    write_at(position, bytes);
  } catch (...) {
    failure = std::current_exception();
    zip_error_set(&error, ZIP_ER_WRITE, EIO);
    return -1;
  }
  position += bytes.size();
  size = std::max(size, position);
  return static_cast<zip_int64_t>(bytes.size());
}

zip_int64_t ZipWriter::Sink::handle(void* data, zip_uint64_t bytes, zip_source_cmd_t command) {
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_STAT:  // a file that is not there yet
      zip_error_set(&error, ZIP_ER_READ, ENOENT);
      return -1;
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&error, data, bytes);
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_WRITE:
      return write({static_cast<const std::byte*>(data), bytes});
    case ZIP_SOURCE_TELL_WRITE:
      return static_cast<zip_int64_t>(position);
    case ZIP_SOURCE_SEEK_WRITE: {
      const zip_int64_t to = zip_source_seek_compute_offset(position, size, data, bytes, &error);
      if (to < 0) return -1;
      position = static_cast<std::uint64_t>(to);
      return 0;
    }
    default:
      zip_error_set(&error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

ZipWriter::ZipWriter(WriteAt write_at) : sink_(std::make_unique<Sink>(std::move(write_at))) {
  zip_source_t* source = zip_source_function_create(&Sink::call, sink_.get(), &sink_->error);
  if (source != nullptr) {
    archive_ = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &sink_->error);
  }
  if (archive_ == nullptr) {
    if (source != nullptr) zip_source_free(source);
    throw std::runtime_error(zip_error_strerror(&sink_->error));
  }
}

ZipWriter::~ZipWriter() {
  if (archive_ != nullptr) zip_discard(archive_);
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> head,
                    std::span<const std::byte> rest) {
  const auto fragment = [](std::span<const std::byte> bytes) {
    // libzip asks for mutable memory, but only reads it.
    auto* memory = reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(bytes.data()));
    return zip_buffer_fragment_t{memory, bytes.size()};
  };
  const std::array fragments = {fragment(head), fragment(rest)};
  zip_source_t* source =
      zip_source_buffer_fragment_create(fragments.data(), fragments.size(), 0, &sink_->error);
  if (source == nullptr) throw std::runtime_error(zip_error_strerror(&sink_->error));
  const zip_int64_t index = zip_file_add(archive_, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    throw std::runtime_error(zip_strerror(archive_));
  }
  constexpr zip_uint16_t kFirstOf1980 = (1U << 5U) | 1U;  // the first day that a zip can name
  const auto entry = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(archive_, entry, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive_, entry, 0, kFirstOf1980, 0) != 0) {
    throw std::runtime_error(zip_strerror(archive_));
  }
}

void ZipWriter::finish() {
  if (zip_get_num_entries(archive_, 0) == 0) {
    // libzip would remove an archive without entries; the format has one: an end of directory.
    constexpr std::string_view kEmpty("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    sink_->write_at(0, std::as_bytes(std::span(kEmpty)));
    return;
  }
  if (zip_close(archive_) != 0) {
    if (sink_->failure) std::rethrow_exception(sink_->failure);
    throw std::runtime_error(zip_strerror(archive_));
  }
  archive_ = nullptr;
}

}  // namespace headwise::io
