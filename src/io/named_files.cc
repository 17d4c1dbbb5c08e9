#include "io/named_files.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "headwise/io.h"

namespace headwise::io {
namespace {

struct UnfinishedFile {
  int folder = -1;  // none
  std::array<char, 64> name{};
};

// Held for a few system calls by a section, and for good by the handler: what follows is the end.
std::atomic_flag locked = ATOMIC_FLAG_INIT;
std::array<UnfinishedFile, 64> files{};  // guarded by it

void lock() noexcept {
  while (locked.test_and_set(std::memory_order_acquire)) {
  }
}

}  // namespace

UninterruptedSection::UninterruptedSection() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
  lock();
}

UninterruptedSection::~UninterruptedSection() {
  locked.clear(std::memory_order_release);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// NOLINTBEGIN(readability-convert-member-functions-to-static): only within a section
void UninterruptedSection::remember(int folder, const std::string& name) noexcept {
  for (UnfinishedFile& file : files) {
    if (file.folder >= 0 || name.size() >= file.name.size()) continue;
    file.folder = folder;
    (void)std::snprintf(file.name.data(), file.name.size(), "%s", name.c_str());
    return;
  }
}

void UninterruptedSection::forget(int folder, const std::string& name) noexcept {
  for (UnfinishedFile& file : files) {
    if (file.folder == folder && name == file.name.data()) file.folder = -1;
  }
}
// NOLINTEND(readability-convert-member-functions-to-static)

}  // namespace headwise::io

void headwise::remove_unfinished_files() noexcept {
  io::lock();
  for (const io::UnfinishedFile& file : io::files) {
    if (file.folder >= 0) (void)::unlinkat(file.folder, file.name.data(), 0);
  }
}
