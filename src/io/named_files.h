// Files that have a name before they are complete, kept where a signal handler finds them: whoever
// interrupts the program shall not have to tidy up after it.
//
// The only state of the library that belongs to the process, as names in a folder and signals do.
#pragma once

#include <csignal>
#include <string>

namespace headwise::io {

// No signal that ends the program comes between two system calls of one section: this thread does not
// take them, and remove_unfinished_files(), on whichever thread, waits for the section's end.
class UninterruptedSection {
 public:
  UninterruptedSection() noexcept;
  ~UninterruptedSection();
  UninterruptedSection(const UninterruptedSection&) = delete;
  UninterruptedSection& operator=(const UninterruptedSection&) = delete;

  // An unfinished file, from now on until it is forgotten. Nothing happens where there are too many
  // at once: a signal will leave those.
  void remember(int folder, const std::string& name) noexcept;
  void forget(int folder, const std::string& name) noexcept;

 private:
  sigset_t before_{};
};

}  // namespace headwise::io
