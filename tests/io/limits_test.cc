// What files claim costs nothing: under a limit of memory each of these is refused like any other.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "headwise/error.h"
#include "headwise/io.h"
#include "io/bytes.h"
#include "io/child.h"
#include "io/temporary_folder.h"
#include "io/zip_bytes.h"

// The sanitizers' own memory is beyond every limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADWISE_SANITIZED 1
#else
#define HEADWISE_SANITIZED 0
#endif

namespace headwise {
namespace {

using test_support::in_child;
using test_support::npy_bytes;
using test_support::safetensors_bytes;

class UnderAMemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HEADWISE_SANITIZED) GTEST_SKIP() << "sanitizers need more memory than any limit";
  }

  // Address space of this process: what tests before this one left behind counts as well.
  static std::uint64_t mapped_bytes() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  // What `call` throws in a process that may have this many bytes of memory more than it has.
  template <typename Call>
  std::string error_within(std::uint64_t bytes, const Call& call) {
    const auto outcome = in_child([&] {
      const std::uint64_t most = mapped_bytes() + bytes;
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_AS, &limit);
      call();
    });
    EXPECT_EQ(outcome.signal, 0) << "it crashed";
    return outcome.error;
  }
  std::string error_of_opening(std::uint64_t bytes, const std::string& path) {
    return error_within(bytes, [&] { (void)TensorFile::open(path); });
  }

  static constexpr std::uint64_t kSmall = 64ULL << 20U;
  static constexpr std::uint64_t kMedium = 1ULL << 30U;
  test_support::TemporaryFolder folder_;
};

// Ten million entries are some 500 MB of header; a sparse file claims as much.
TEST_F(UnderAMemoryLimit, TenMillionEntries) {
  const std::string path = folder_.write("a", safetensors_bytes("{\"a\":", "", 500'000'000));
  std::filesystem::resize_file(path, 500'000'008);
  EXPECT_NE(error_of_opening(kMedium, path).find("more than 100000000"), std::string::npos);
}

// As many as a header may hold: more than a million are refused, and names and shapes of a million
// fit beside the 100 MB of the header.
TEST_F(UnderAMemoryLimit, AsManyEntriesAsFit) {
  std::string header = "{";
  for (int i = 0; header.size() < 99'900'000; ++i) {
    if (i > 0) header += ',';
    header += '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string path = folder_.write("a", safetensors_bytes(header + "}"));
  EXPECT_NE(error_of_opening(kMedium, path).find("more than 1000000 tensors"), std::string::npos);
}

TEST_F(UnderAMemoryLimit, AMillionEntries) {
  std::string header = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    if (i > 0) header += ',';
    header += '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string path = folder_.write("a", safetensors_bytes(header + "}"));
  EXPECT_EQ(error_of_opening(kMedium, path), "");
}

TEST_F(UnderAMemoryLimit, ANameOfAHundredMegabytes) {
  const std::string path =
      folder_.write("a", safetensors_bytes("{\"" + std::string(99'999'000, 'x') + "\":1}"));
  const std::string error = error_of_opening(kMedium, path);
  EXPECT_NE(error.find("instead of a JSON object"), std::string::npos);
  EXPECT_LT(error.size(), 500);
  const std::string open_end =
      folder_.write("a", safetensors_bytes("{\"" + std::string(99'999'000, 'x')));
  EXPECT_NE(error_of_opening(kMedium, open_end).find("no valid JSON"), std::string::npos);
}

TEST_F(UnderAMemoryLimit, FourGigabytesThatAreNotThere) {
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824,), }\n";
  const std::string bytes = npy_bytes(text, std::string(100, '\0'));
  EXPECT_NE(error_of_opening(kSmall, folder_.write("a", bytes)).find("but 100 follow"),
            std::string::npos);
  const std::string streamed = error_within(kSmall, [&] {
    std::istringstream stream(bytes);
    (void)read_npy(stream, "<stdin>");
  });
  EXPECT_NE(streamed.find("ends before the 4294967296 bytes"), std::string::npos) << streamed;
  const std::string zip = folder_.write("a", test_support::zip_bytes({{"a.npy", bytes}}));
  EXPECT_NE(error_of_opening(kSmall, zip).find("but 100 follow"), std::string::npos);
}

// The numbers are there, but the memory is not: an error that says so, not a crash.
TEST_F(UnderAMemoryLimit, TensorsThatDoNotFit) {
  const std::string path = folder_.write(
      "a",
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[20000000],"data_offsets":[0,20000000]}})",
                        std::string(20'000'000, '\1')));
  const std::string error =
      error_within(kSmall, [&] { (void)TensorFile::open(path).read_any("a"); });
  EXPECT_NE(error.find("out of memory: 160000000 bytes"), std::string::npos) << error;
}

// As many as a zip's directory has without extensions; libzip reads all of it.
TEST_F(UnderAMemoryLimit, ManyEntriesInAZip) {
  std::vector<test_support::ZipPart> parts(65'535);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].name = std::to_string(i);
  const std::string path = folder_.write("a", test_support::zip_bytes(parts));
  const std::string error = error_of_opening(2 * kSmall, path);
  EXPECT_NE(error.find("without npy arrays"), std::string::npos) << error;
}

}  // namespace
}  // namespace headwise
