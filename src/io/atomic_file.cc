#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "headwise/io.h"
#include "io/named_files.h"

namespace headwise::io {
namespace {

// What a chain of symbolic links ends at, which need not exist. Links among the folders on the way
// are the system's business.
std::string link_target(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as Linux has it
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(target, error)); ++i) {
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target.string();
}

// `headwise … --output /dev/stdout > file`: what is printed and what is written go to one file, which
// must not be replaced under the hands of the shell.
bool is_standard_output(const struct stat& status) {
  struct stat standard_output {};
  return ::fstat(STDOUT_FILENO, &standard_output) == 0 && standard_output.st_dev == status.st_dev &&
         standard_output.st_ino == status.st_ino;
}

std::string random_name() {
  std::random_device random;
  std::array<char, 48> name{};
  (void)std::snprintf(name.data(), name.size(), ".headwise-%08x%08x.tmp", random(), random());
  return name.data();
}

// Writes all of it; returns 0 or an error number. A negative offset: wherever the file is.
int write_all(int file, std::span<const std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = offset < 0 ? ::write(file, bytes.data(), bytes.size())
                                       : ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (offset >= 0) offset += written;
  }
  return 0;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (!is_there && errno != ENOENT) fail(errno);
  const auto old = is_there ? std::optional(status) : std::nullopt;
  if (old && S_ISDIR(old->st_mode)) throw FileError(path, "is a folder, not a file");
  const bool standard_output = old && is_standard_output(*old);
  if (standard_output || (old && !S_ISREG(old->st_mode))) {
    open_device(standard_output);
  } else {
    open_beside(link_target(path), old);
  }
}

AtomicFile::~AtomicFile() {
  if (temporary_.empty()) return;
  UninterruptedSection section;
  (void)::unlinkat(folder_.get(), temporary_.c_str(), 0);
  section.forget(folder_.get(), temporary_);
}

void AtomicFile::fail(int error) const {
  throw FileError(path_, "cannot be written: " + std::generic_category().message(error));
}

// Collected in memory first: a writer may go back and forth in its file, and a pipe should not get
// half of what could not be finished.
void AtomicFile::open_device(bool is_standard_output) {
  device_ =
      FileDescriptor(is_standard_output ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                        : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!device_.is_open()) fail(errno);
  file_ = FileDescriptor(::memfd_create("headwise", MFD_CLOEXEC));
  if (!file_.is_open()) fail(errno);
}

void AtomicFile::open_beside(const std::string& target, const std::optional<struct stat>& old) {
  const std::filesystem::path parts = target;
  const std::string folder = parts.has_parent_path() ? parts.parent_path().string() : ".";
  name_ = parts.filename().string();
  if (name_.empty()) throw FileError(path_, "is not the name of a file");
  folder_ = FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open() && errno == ENOENT) throw FileError(path_, "no folder " + folder);
  if (!folder_.is_open()) fail(errno);
  // Replacing a file asks for the folder's permission alone; whoever protected the file meant it.
  if (old && ::faccessat(folder_.get(), name_.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);

  constexpr mode_t kDefault = 0666;  // less the user's mask
  open_temporary(kDefault);
  if (old) {
    constexpr mode_t kPermissions = 0777;
    // The owner can be kept by the superuser alone; for others the attempt is all there is.
    if (::fchown(file_.get(), old->st_uid, old->st_gid) != 0) errno = 0;
    if (::fchmod(file_.get(), old->st_mode & kPermissions) != 0) fail(errno);
  }
}

// Without a name where the file system can do that and /proc is there to give it one later.
void AtomicFile::open_temporary(mode_t mode) {
  if (::access("/proc/self/fd", X_OK) == 0) {
    file_ = FileDescriptor(::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
    if (file_.is_open()) return;
    // The last two are what a kernel says that does not know the flag.
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail(errno);
  }
  UninterruptedSection section;
  std::string name;
  do {
    name = random_name();
    file_ = FileDescriptor(
        ::openat(folder_.get(), name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode));
  } while (!file_.is_open() && errno == EEXIST);
  if (!file_.is_open()) fail(errno);
  section.remember(folder_.get(), name);
  temporary_ = std::move(name);
}

std::string AtomicFile::readable_path() const {
  if (temporary_.empty()) return "/proc/self/fd/" + std::to_string(file_.get());
  return (std::filesystem::path(link_target(path_)).parent_path() / temporary_).string();
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  const int error = write_all(file_.get(), bytes, static_cast<std::int64_t>(offset));
  if (error != 0) fail(error);
  size_ = std::max(size_, offset + bytes.size());
}

void AtomicFile::commit() {
  if (device_.is_open()) {
    copy_to_device();
    return;
  }
  // Otherwise a name could reach the disk before the bytes it stands for.
  if (::fsync(file_.get()) != 0) fail(errno);
  put_in_place();
  // Some file systems cannot synchronise a folder and say EINVAL.
  if (::fsync(folder_.get()) != 0 && errno != EINVAL) fail(errno);
}

// Gives the unnamed file a name; false if something has it already.
bool AtomicFile::link_as(const std::string& name) {
  if (::linkat(AT_FDCWD, readable_path().c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) ==
      0) {
    return true;
  }
  if (errno != EEXIST) fail(errno);
  return false;
}

void AtomicFile::put_in_place() {
  if (temporary_.empty() && link_as(name_)) return;  // there was no such file: done in one step
  UninterruptedSection section;  // an unnamed file has another name for a moment
  if (temporary_.empty()) {
    std::string name = random_name();
    while (!link_as(name)) name = random_name();
    temporary_ = std::move(name);
  }
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) fail(errno);
  section.forget(folder_.get(), temporary_);
  temporary_.clear();
}

void AtomicFile::copy_to_device() {
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 20U;
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, size_)));
  for (std::uint64_t offset = 0; offset < size_;) {
    const ssize_t count =
        ::pread(file_.get(), chunk.data(), chunk.size(), static_cast<std::int64_t>(offset));
    if (count <= 0) fail(count < 0 ? errno : EIO);
    const std::span<const std::byte> bytes(chunk.data(), static_cast<std::size_t>(count));
    if (const int error = write_all(device_.get(), bytes, -1); error != 0) fail(error);
    offset += bytes.size();
  }
}

}  // namespace headwise::io

namespace headwise {

void io::commit(AtomicFile& file, const FileCheck& check) {
  if (check) check(TensorFile::open(file.readable_path()));
  file.commit();
}

void write_file(const std::string& path, std::string_view bytes) {
  io::AtomicFile file(path);
  file.append(bytes);
  file.commit();
}

}  // namespace headwise
