// A file that is put in place whole or not at all, whatever interrupts its writer.
//
//   AtomicFile file(path);        an unnamed file in the folder of `path`
//   file.append(bytes); …         nothing is seen of it, and nothing stays if the program is killed
//                                 (where files need a name: if it is interrupted, see named_files.h)
//   file.commit();                synchronised with the disk, then put in the place of `path`
//
// A symbolic link stays one: what it points to is replaced. The old file's permissions stay. What is
// no regular file (a pipe, /dev/null, a terminal) cannot be replaced: commit() writes to it.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "headwise/io.h"
#include "io/file_descriptor.h"

namespace headwise::io {

class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // All throw FileError, whose path is that given to the constructor.
  void append(std::span<const std::byte> bytes) { write_at(size_, bytes); }
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void commit();

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Opens what was written so far.
  [[nodiscard]] std::string readable_path() const;

 private:
  void open_device(bool is_standard_output);
  void open_beside(const std::string& target, const std::optional<struct stat>& old);
  void open_temporary(mode_t mode);
  bool link_as(const std::string& name);
  void put_in_place();
  void copy_to_device();
  [[noreturn]] void fail(int error) const;

  std::string path_;       // as the caller gave it
  std::string name_;       // of the file to replace, within folder_
  std::string temporary_;  // name of the new file within folder_ while it has one
  FileDescriptor folder_;
  FileDescriptor device_;  // open: what is written to instead of a file being replaced
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

// What `check` throws leaves the old file in place.
void commit(AtomicFile& file, const FileCheck& check);

}  // namespace headwise::io
