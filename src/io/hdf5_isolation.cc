#include "io/hdf5_isolation.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "io/file_descriptor.h"
#include "io/malformed.h"

namespace headwise::io {
namespace {

// Before each piece of output: what it is, and how many bytes follow.
struct FrameHeader {
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;
};
constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 10U;  // what a pipe holds
constexpr std::size_t kMaxMessageBytes = 2000;

[[noreturn]] void fail_to_start(const char* what) {
  malformed(std::string("cannot start a process: ") + what + ": " +
            std::generic_category().message(errno));
}

// A sanitizer's runtime opens files of its own when something is thrown, and takes its time.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// ---- In the child ----------------------------------------------------------------------------

void limit(__rlimit_resource resource, std::uint64_t value) {
  // Lowering is always allowed; a limit that was lower stays.
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(now.rlim_cur, value);
  // Reaching the hard limit of time kills without saying why; the soft one comes first.
  now.rlim_max = std::min<rlim_t>(now.rlim_max, value + 1);
  (void)setrlimit(resource, &now);
}

// Limits count from what is mapped already, which may be terabytes: the caller's own files, or the
// shadow memory of a sanitizer.
std::uint64_t mapped_bytes() {
  const FileDescriptor file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 32> text{};
  const ssize_t length = file.is_open() ? read(file.get(), text.data(), text.size()) : 0;
  std::uint64_t pages = 0;
  std::from_chars(text.data(), text.data() + std::max<ssize_t>(length, 0), pages);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// The caller's handlers are not for this process: what kills it must kill it silently.
void reset_signals() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) (void)sigaction(signal, &plain, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

// Standard streams lead nowhere: the C library reports a corrupted heap on standard error. All else
// is closed, so that a sibling's pipe is not held open. Returns the pipe's new descriptor.
int keep_only(int pipe_end) {
  const int kept = fcntl(pipe_end, F_DUPFD_CLOEXEC, 3);
  if (kept < 0) return -1;
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = 0; stream < 3; ++stream) {
    if (nowhere < 0 || dup2(nowhere, stream) < 0) (void)close(stream);
  }
  if (kept > 3) (void)close_range(3, static_cast<unsigned>(kept) - 1, 0);
  (void)close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
  return kept;
}

void confine(const ChildLimits& limits) {
  if (const std::uint64_t mapped = mapped_bytes(); mapped > 0) {
    limit(RLIMIT_AS, mapped + limits.memory_bytes);
  }
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(limits.seconds));
  limit(RLIMIT_CORE, 0);
  (void)prctl(PR_SET_DUMPABLE, 0);           // no core through a pipe to a crash reporter either
  if (!kSanitized) limit(RLIMIT_NOFILE, 0);  // whatever a file links to, it cannot be opened
}

}  // namespace

enum class ChildOutput::Frame : unsigned char { Data = 1, Done, Failed };

void ChildOutput::send_frame(Frame kind, std::span<const std::byte> payload) const {
  const FrameHeader header{static_cast<std::uint32_t>(kind),
                           static_cast<std::uint32_t>(payload.size())};
  for (auto part : {std::as_bytes(std::span(&header, 1)), payload}) {
    while (!part.empty()) {
      const ssize_t written = write(descriptor_, part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) _exit(1);  // nobody listens
      part = part.subspan(static_cast<std::size_t>(written));
    }
  }
}

void ChildOutput::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxFrameBytes));
    send_frame(Frame::Data, piece);
    bytes = bytes.subspan(piece.size());
  }
}

// A child from its fork to its burial.
class ChildProcess {
 public:
  ChildProcess(const ChildLimits& limits, const std::function<void(ChildOutput&)>& work);
  ~ChildProcess() { end(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void receive_all(const std::function<void(std::span<const std::byte>)>& receive);

 private:
  using Frame = ChildOutput::Frame;
  [[noreturn]] void live(int pipe_end, const std::function<void(ChildOutput&)>& work) const;
  void read_exactly(std::span<std::byte> into);
  void wait_for_bytes();
  bool is_gone();
  void end() noexcept;
  [[noreturn]] void fail_as_it_died();
  [[noreturn]] void fail(const std::string& how) const {
    malformed(std::string(limits_.task) + " " + how);
  }

  ChildLimits limits_;
  FileDescriptor output_;
  pid_t process_ = -1;
  bool buried_ = false;
  int status_ = -1;  // of waitpid; −1 where another part of the program took it first
};

ChildProcess::ChildProcess(const ChildLimits& limits, const std::function<void(ChildOutput&)>& work)
    : limits_(limits) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_to_start("pipe");
  output_ = FileDescriptor(ends[0]);
  const FileDescriptor childs_end(ends[1]);

  // No signal may find the child with its parent's handlers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  process_ = fork();
  if (process_ == 0) live(childs_end.get(), work);
  const int error = errno;
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (process_ < 0) {
    buried_ = true;
    errno = error;
    fail_to_start("fork");
  }
}

// Ends without destructors and exit handlers: those belong to the parent.
void ChildProcess::live(int pipe_end, const std::function<void(ChildOutput&)>& work) const {
  reset_signals();
  const int kept = keep_only(pipe_end);
  if (kept < 0) _exit(1);
  confine(limits_);
  ChildOutput output(kept);
  try {
    work(output);
    output.send_frame(Frame::Done, {});
  } catch (const std::bad_alloc&) {
    output.send_frame(Frame::Failed,
                      std::as_bytes(std::span(std::string_view("needs too much memory"))));
  } catch (const std::exception& error) {
    const std::string_view message(error.what());
    output.send_frame(Frame::Failed, std::as_bytes(std::span(message.substr(0, kMaxMessageBytes))));
  }
  _exit(0);
}

void ChildProcess::receive_all(const std::function<void(std::span<const std::byte>)>& receive) {
  std::vector<std::byte> buffer(kMaxFrameBytes);
  while (true) {
    FrameHeader header;
    read_exactly(std::as_writable_bytes(std::span(&header, 1)));
    if (header.bytes > buffer.size()) fail("gives nonsense");
    const auto payload = std::span(buffer).first(header.bytes);
    read_exactly(payload);
    switch (static_cast<Frame>(header.kind)) {
      case Frame::Data:
        receive(payload);
        break;
      case Frame::Done:
        return;
      case Frame::Failed:
        malformed({reinterpret_cast<const char*>(payload.data()), payload.size()});
      default:
        fail("gives nonsense");
    }
  }
}

void ChildProcess::read_exactly(std::span<std::byte> into) {
  while (!into.empty()) {
    wait_for_bytes();
    const ssize_t got = read(output_.get(), into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_as_it_died();
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

// Returns when there is something to read, be it the end. The end alone would not tell that the
// child died: a process that another thread forked may hold the pipe open. So it is looked after.
void ChildProcess::wait_for_bytes() {
  using Clock = std::chrono::steady_clock;
  const auto deadline =
      Clock::now() + std::chrono::seconds(limits_.seconds + limits_.silent_seconds);
  pollfd source{output_.get(), POLLIN, 0};
  while (true) {
    const bool gone = is_gone();  // before looking: what it sent last is still there
    if (poll(&source, 1, gone ? 0 : 20) > 0) return;
    if (gone) fail_as_it_died();
    if (Clock::now() > deadline) fail("does not end");
  }
}

bool ChildProcess::is_gone() {
  if (buried_) return true;
  const pid_t found = waitpid(process_, &status_, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return false;
  if (found < 0) status_ = -1;
  buried_ = true;
  return true;
}

void ChildProcess::fail_as_it_died() {
  end();
  if (status_ >= 0 && WIFSIGNALED(status_)) {
    if (WTERMSIG(status_) == SIGXCPU) fail("does not end");
    fail("crashes (signal " + std::to_string(WTERMSIG(status_)) + ")");
  }
  fail("ends early");
}

// Never kills a process that was waited for: its number may be another's by now.
void ChildProcess::end() noexcept {
  if (is_gone()) return;
  (void)kill(process_, SIGKILL);
  while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) {
  }
  buried_ = true;
}

void run_isolated(const ChildLimits& limits, const std::function<void(ChildOutput&)>& work,
                  const std::function<void(std::span<const std::byte>)>& receive) {
  ChildProcess(limits, work).receive_all(receive);
}

}  // namespace headwise::io
