// Work that a damaged file may make crash or never end, done by a process of its own.
//
// libhdf5 was written for files that one has made oneself: one changed byte can make it write where
// it must not, or go round in circles. So it never runs in the caller's process. A forked child does
// the work, under limits, and sends what it found through a pipe; if it dies, that is an error like
// any other. It also means that libhdf5, which is not re-entrant, needs no lock of ours: every call
// has it to itself.
//
// What comes through the pipe is as little to be trusted as the file. Its framing is checked here;
// what it says, by those who receive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace headwise::io {

struct ChildLimits {
  std::uint64_t memory_bytes = 0;  // on top of what the process has mapped already
  int seconds = 0;                 // of processor time
  int silent_seconds = 30;         // waiting, perhaps for a lock that nobody holds any more; on top
  std::string_view task = "damaged: reading it";  // begins the message when the child dies
};

// The child's end of the pipe.
class ChildOutput {
 public:
  explicit ChildOutput(int descriptor) : descriptor_(descriptor) {}
  void send(std::span<const std::byte> bytes);
  void send(std::string_view text) { send(std::as_bytes(std::span(text))); }

 private:
  friend class ChildProcess;
  enum class Frame : unsigned char;
  void send_frame(Frame kind, std::span<const std::byte> payload) const;

  int descriptor_;
};

// Runs `work` in a child and hands all that it sends to `receive`, in order and in pieces of any
// size, in this process. Throws Malformed with the message of what `work` threw, or one that begins
// with limits.task if the child crashed or reached a limit; and whatever `receive` throws. The child
// is gone when this returns.
//
// `work` sees this process's memory as it is now and can change nothing in it. It cannot open files.
// Other threads may hold locks that will never be released in the child, so it must not use any but
// malloc's.
void run_isolated(const ChildLimits& limits, const std::function<void(ChildOutput&)>& work,
                  const std::function<void(std::span<const std::byte>)>& receive);

}  // namespace headwise::io
