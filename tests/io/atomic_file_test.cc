// Writing: whole or not at all, whatever happens on the way.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "headwise/io.h"
#include "io/child.h"
#include "io/expect_file_error.h"
#include "io/system_calls.h"
#include "io/temporary_folder.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using test_support::ChildOutcome;
using test_support::die_at_system_call;
using test_support::fail_system_call;
using test_support::file_error;
using test_support::in_child;
using test_support::on_system_call;

using Names = std::vector<std::string>;

class AtomicWrite : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  [[nodiscard]] mode_t mode(std::string_view name) const {
    struct stat status {};
    EXPECT_EQ(::stat(path(name).c_str(), &status), 0);
    return status.st_mode & 07777U;
  }
  ::testing::AssertionResult refused(const std::string& name, const std::string& mentions) const {
    return file_error([&] { write_file(name, "new"); }, name, mentions);
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(AtomicWrite, ANewFile) {
  const std::string bytes("a\0b\n", 4);
  write_file(path("a"), bytes);
  EXPECT_EQ(folder_.read("a"), bytes);
  EXPECT_EQ(folder_.names(), Names{"a"});
  write_file(path("a"), "");
  EXPECT_EQ(folder_.read("a"), "");
}

TEST_F(AtomicWrite, InTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  write_file("a", "new");
  fs::current_path(before);
  EXPECT_EQ(folder_.read("a"), "new");
}

TEST_F(AtomicWrite, PermissionsOfNewFilesFollowTheMask) {
  const mode_t before = ::umask(027);
  write_file(path("a"), "x");
  ::umask(before);
  EXPECT_EQ(mode("a"), 0640);
}

TEST_F(AtomicWrite, PermissionsOfOldFilesStay) {
  folder_.write("a", "old");
  for (const mode_t permissions : {0600U, 0644U, 0666U, 0755U}) {
    ASSERT_EQ(::chmod(path("a").c_str(), permissions), 0);
    write_file(path("a"), "new");
    EXPECT_EQ(mode("a"), permissions);
  }
  EXPECT_EQ(folder_.names(), Names{"a"});
}

TEST_F(AtomicWrite, SymbolicLinksStay) {
  fs::create_directory(path("elsewhere"));
  folder_.write("elsewhere/a", "old");
  fs::create_symlink("elsewhere/a", path("first"));
  fs::create_symlink("first", path("second"));
  write_file(path("second"), "new");
  EXPECT_EQ(folder_.read("elsewhere/a"), "new");
  EXPECT_TRUE(fs::is_symlink(path("first")));
  EXPECT_TRUE(fs::is_symlink(path("second")));

  fs::create_symlink("elsewhere/none", path("dangling"));
  write_file(path("dangling"), "made");
  EXPECT_EQ(folder_.read("elsewhere/none"), "made");
  EXPECT_TRUE(fs::is_symlink(path("dangling")));

  fs::create_symlink("loop", path("loop"));
  EXPECT_TRUE(refused(path("loop"), "cannot be written"));
  EXPECT_TRUE(fs::is_symlink(path("loop")));
}

TEST_F(AtomicWrite, PathsThatAreNoFiles) {
  EXPECT_TRUE(refused("", "not the name of a file"));
  EXPECT_TRUE(refused(folder_.path(), "is a folder"));
  EXPECT_TRUE(refused(folder_.path() + "/", "is a folder"));
  EXPECT_TRUE(refused(path("none/a"), "no folder " + path("none")));
  folder_.write("a", "old");
  EXPECT_TRUE(refused(path("a/b"), "Not a directory"));
  EXPECT_TRUE(refused(path(std::string(300, 'x')), "File name too long"));
  EXPECT_EQ(folder_.names(), Names{"a"});
}

// Names of the greatest length: those of temporary files must not be longer.
TEST_F(AtomicWrite, LongNames) {
  const std::string name(255, 'x');
  write_file(path(name), "old");
  write_file(path(name), "new");
  EXPECT_EQ(folder_.read(name), "new");
}

// The superuser may do everything, so somebody else tries.
void become_nobody() {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::setuid(kNobody) != 0) throw std::runtime_error("cannot change user");
}

TEST_F(AtomicWrite, ReadOnly) {
  folder_.write("a", "old");
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(path("a").c_str(), 0444), 0);
  const auto write = [&](const std::string& name) {
    return in_child([&] {
      become_nobody();
      write_file(path(name), "new");
    });
  };
  EXPECT_EQ(write("a").error, path("a") + ": cannot be written: Permission denied");
  EXPECT_TRUE(write("b").succeeded());
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0555), 0);
  EXPECT_EQ(write("c").error, path("c") + ": cannot be written: Permission denied");
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  EXPECT_EQ(folder_.read("a"), "old");
  EXPECT_EQ(folder_.names(), (Names{"a", "b"}));
}

TEST_F(AtomicWrite, Devices) {
  EXPECT_NO_THROW(write_file("/dev/null", "x"));
  EXPECT_TRUE(refused("/dev/full", "No space left on device"));
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode)) << "it must not be replaced";
}

TEST_F(AtomicWrite, Pipes) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const TensorMap tensors = {{"a", Tensor::normal({300, 1000}, 1)}};
  std::string read;
  std::thread reader([&] { read = folder_.read("pipe"); });
  write_npz(path("pipe"), tensors);  // goes back and forth in its file
  reader.join();
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  write_npz(path("file"), tensors);
  EXPECT_EQ(read, folder_.read("file"));
}

// `headwise … --output /dev/stdout > file`.
TEST_F(AtomicWrite, StandardOutputThatIsAFile) {
  const ChildOutcome outcome = in_child([&] {
    const int file = ::open(path("out").c_str(), O_CREAT | O_WRONLY, 0600);
    ::dup2(file, STDOUT_FILENO);
    if (::write(STDOUT_FILENO, "before ", 7) != 7) throw std::runtime_error("write");
    write_file("/dev/stdout", "written");
    if (::write(STDOUT_FILENO, " after", 6) != 6) throw std::runtime_error("write");
  });
  EXPECT_TRUE(outcome.succeeded()) << outcome.error;
  EXPECT_EQ(folder_.read("out"), "before written after");
}

// Each is a way in which the disk may fail; the old file stays, and nothing stays beside it.
TEST_F(AtomicWrite, DisksThatFail) {
  folder_.write("a", "old");
  struct Failure {
    long call;
    int error;
    const char* says;
  };
  for (const auto& [call, error, says] :
       std::vector<Failure>{{SYS_pwrite64, ENOSPC, "No space left on device"},
                            {SYS_pwrite64, EDQUOT, "Disk quota exceeded"},
                            {SYS_fsync, EIO, "Input/output error"},
                            {SYS_linkat, ENOSPC, "No space left on device"},
                            {SYS_renameat, EROFS, "Read-only file system"}}) {
    const ChildOutcome outcome = in_child([&, call = call, error = error] {
      fail_system_call(call, error);
      write_safetensors(path("a"), {{"x", Tensor({1000})}});
    });
    EXPECT_EQ(outcome.error, path("a") + ": cannot be written: " + says);
    EXPECT_EQ(folder_.read("a"), "old");
    EXPECT_EQ(folder_.names(), Names{"a"});
  }
}

TEST_F(AtomicWrite, ALimitOfFileSizes) {
  folder_.write("a", "old");
  for (const bool as_zip : {false, true}) {
    const ChildOutcome outcome = in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{1 << 16, 1 << 16};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const TensorMap tensors = {{"x", Tensor({100'000})}};
      as_zip ? write_npz(path("a"), tensors) : write_safetensors(path("a"), tensors);
    });
    EXPECT_EQ(outcome.error, path("a") + ": cannot be written: File too large");
    EXPECT_EQ(folder_.read("a"), "old");
    EXPECT_EQ(folder_.names(), Names{"a"});
  }
}

constexpr unsigned kUnnamedFile = O_TMPFILE & ~static_cast<unsigned>(O_DIRECTORY);

// File systems that know no files without a name: NFS, some FUSE ones.
TEST_F(AtomicWrite, WithoutUnnamedFiles) {
  const auto write = [&](const std::string& bytes, long failing = -1) {
    return in_child([&] {
      fail_system_call(SYS_openat, EOPNOTSUPP, kUnnamedFile);
      if (failing >= 0) fail_system_call(failing, ENOSPC);
      write_file(path("a"), bytes);
    });
  };
  EXPECT_TRUE(write("first").succeeded());
  EXPECT_EQ(folder_.read("a"), "first");
  EXPECT_TRUE(write("second").succeeded());
  EXPECT_EQ(folder_.read("a"), "second");
  for (const long call : {SYS_pwrite64, SYS_fsync, SYS_renameat}) {
    EXPECT_EQ(write("third", call).error,
              path("a") + ": cannot be written: No space left on device");
    EXPECT_EQ(folder_.read("a"), "second");
    EXPECT_EQ(folder_.names(), Names{"a"}) << "the temporary file must go";
  }
}

// Killed at every step of the way: before the last one the old file is there and nothing else.
TEST_F(AtomicWrite, KilledAtAChosenMoment) {
  for (const bool is_there : {false, true}) {
    if (is_there) folder_.write("a", "old");
    const Names before = folder_.names();
    for (const long call : {SYS_pwrite64, SYS_fsync, SYS_linkat}) {
      const ChildOutcome outcome = in_child([&] {
        die_at_system_call(call);
        write_file(path("a"), "new");
      });
      EXPECT_EQ(outcome.signal, SIGSYS);
      EXPECT_EQ(folder_.names(), before);
      if (is_there) {
        EXPECT_EQ(folder_.read("a"), "old");
      }
    }
  }
}

// Between giving the new file a name and renaming it a kill leaves a second file, but the old one.
TEST_F(AtomicWrite, KilledBeforeTheLastStep) {
  folder_.write("a", "old");
  const ChildOutcome outcome = in_child([&] {
    die_at_system_call(SYS_renameat);
    write_file(path("a"), "new");
  });
  EXPECT_EQ(outcome.signal, SIGSYS);
  EXPECT_EQ(folder_.read("a"), "old");
}

// As a program's handler does it.
void remove_files_and_end(int signal) {
  remove_unfinished_files();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Interrupted where the new file has a name all the while: at its synchronisation the system sends a
// signal.
TEST_F(AtomicWrite, InterruptedWithoutUnnamedFiles) {
  folder_.write("a", "old");
  const ChildOutcome outcome = in_child([&] {
    ::signal(SIGSYS, remove_files_and_end);
    fail_system_call(SYS_openat, EOPNOTSUPP, kUnnamedFile);
    on_system_call(SYS_fsync, SECCOMP_RET_TRAP);
    write_file(path("a"), "new");
  });
  EXPECT_EQ(outcome.signal, SIGSYS);
  EXPECT_EQ(folder_.names(), Names{"a"}) << "the temporary file must go";
  EXPECT_EQ(folder_.read("a"), "old");
}

// Interrupted at any moment, also between giving the new file a name and renaming it, and on another
// thread than the one that writes.
TEST_F(AtomicWrite, InterruptedAtAnyMoment) {
  write_file(path("a"), "first");
  for (int i = 0; i < 60; ++i) {
    const bool named = i % 2 == 1;
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGINT, remove_files_and_end);
      if (named) fail_system_call(SYS_openat, EOPNOTSUPP, kUnnamedFile);
      std::thread idle([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
      for (;;) write_file(path("a"), i % 3 == 0 ? "first" : "second");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + 37 * i));
    ::kill(child, SIGINT);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(folder_.names(), Names{"a"}) << "attempt " << i;
    const std::string found = folder_.read("a");
    EXPECT_TRUE(found == "first" || found == "second") << found;
  }
}

// A look at the complete file before it is put in place.
TEST_F(AtomicWrite, CheckedBeforeItIsPutInPlace) {
  const TensorMap tensors = {{"x", Tensor::normal({3, 4}, 1)}};
  for (const bool named : {false, true}) {
    const ChildOutcome outcome = in_child([&] {
      if (named) fail_system_call(SYS_openat, EOPNOTSUPP, kUnnamedFile);
      bool asked = false;
      write_safetensors(path("a"), tensors, {}, [&](const TensorFile& written) {
        asked = written.read("x").shape() == Shape{3, 4} && !fs::exists(path("a"));
      });
      if (!asked) throw std::runtime_error("the new file was not shown");
      fs::remove(path("a"));
    });
    EXPECT_EQ(outcome.error, "");
  }
  folder_.write("a", "old");
  const auto refuse = [](const TensorFile&) { throw std::runtime_error("no"); };
  EXPECT_THROW(write_npz(path("a"), tensors, refuse), std::runtime_error);
  EXPECT_EQ(folder_.read("a"), "old");
  EXPECT_EQ(folder_.names(), Names{"a"});
}

// A child that does nothing but write, killed again and again.
TEST_F(AtomicWrite, KilledAtAnyMoment) {
  const std::string first(3'000'000, 'x');
  const std::string second(2'000'000, 'y');
  write_file(path("a"), first);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        write_file(path("a"), second);
        write_file(path("a"), first);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + 2 * i));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string found = folder_.read("a");
    EXPECT_TRUE(found == first || found == second) << found.size() << " bytes, neither file";
  }
}

}  // namespace
}  // namespace headwise
