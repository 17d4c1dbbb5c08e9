// The files that the fuzzers begin with: written by numpy and safetensors themselves, or wrong in
// one way each.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/io.h"
#include "io/expect_file_error.h"
#include "io/project_file.h"
#include "io/temporary_folder.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

class Corpus : public ::testing::TestWithParam<std::string> {
 protected:
  // Paths of copies, under a name that the format has.
  std::vector<fs::path> files(const std::string& beginning, const std::string& suffix) {
    const auto folder = test_support::project_file("tests/fuzz/corpus/" + GetParam());
    std::vector<fs::path> copies;
    for (const auto& entry : fs::directory_iterator(folder.value())) {
      const std::string name = entry.path().filename().string();
      if (name.rfind(beginning, 0) != 0) continue;
      copies.emplace_back(folder_.path(name + suffix));
      fs::copy_file(entry.path(), copies.back());
    }
    return copies;
  }
  static std::string suffix() {
    return GetParam() == "safetensors_index" ? ".index.json" : "." + GetParam();
  }

  test_support::TemporaryFolder folder_;
};

// Objects and 8-bit floats cannot be read, and say so.
bool is_readable(const TensorInfo& tensor) {
  return tensor.dtype != "|O" && tensor.dtype[0] != '<' && tensor.dtype != "F8_E4M3";
}

TEST_P(Corpus, GoodFilesAreRead) {
  const auto good = files("good-", suffix());
  EXPECT_FALSE(good.empty());
  for (const fs::path& path : good) {
    if (GetParam() == "safetensors_index" && path.stem().stem() == "good-two-shards") {
      for (const char* name : {"1", "2"}) {
        const std::string shard = std::string("model-0000") + name + "-of-00002.safetensors";
        TensorMap tensors;
        for (int i = 0; i < 4; ++i) tensors["layer." + std::to_string(i) + ".weight"] = Tensor({2});
        write_safetensors(folder_.path(shard), tensors);
      }
    }
    const TensorFile file = TensorFile::open(path.string());
    for (const TensorInfo& tensor : file.tensors()) {
      if (!is_readable(tensor)) continue;
      EXPECT_NO_THROW((void)file.read_any(tensor.name)) << path;
    }
  }
}

TEST_P(Corpus, BadFilesAreRefused) {
  const auto bad = files("bad-", suffix());
  EXPECT_FALSE(bad.empty());
  for (const fs::path& path : bad) {
    const auto read_all = [&] {
      const TensorFile file = TensorFile::open(path.string());
      for (const TensorInfo& tensor : file.tensors()) (void)file.read_any(tensor.name);
    };
    EXPECT_TRUE(test_support::file_error(read_all, path.string(), "")) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Corpus,
                         ::testing::Values("safetensors", "safetensors_index", "npy", "npz"),
                         [](const auto& format) { return format.param; });

}  // namespace
}  // namespace headwise
