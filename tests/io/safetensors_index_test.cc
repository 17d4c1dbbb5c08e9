// Models in several files: the index is as little trusted as the files it names.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "headwise/io.h"
#include "io/expect_file_error.h"
#include "io/temporary_folder.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using test_support::file_error;
using test_support::refused;
using test_support::same_bits;

constexpr const char* kIndex = "model.safetensors.index.json";

class SafetensorsIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_.path("model"));
    write_safetensors(folder_.path("model/1.safetensors"), {{"a", a_}, {"b", b_}}, {{"k", "one"}});
    write_safetensors(folder_.path("model/2.safetensors"), {{"c", c_}, {"a", c_}},
                      {{"k", "two"}, {"l", "two"}});
    write_safetensors(folder_.path("outside.safetensors"), {{"o", a_}});
  }
  std::string index(const std::string& text) {
    return folder_.write(std::string("model/") + kIndex, text);
  }
  std::string map_of(const std::string& file, const std::string& tensor = "a") {
    return index(R"({"weight_map":{")" + tensor + R"(":")" + file + R"("}})");
  }

  test_support::TemporaryFolder folder_;
  Tensor a_ = Tensor::normal({2, 3}, 1);
  Tensor b_ = Tensor::normal({4}, 2);
  Tensor c_ = Tensor::normal({5}, 3);
};

constexpr const char* kWhole =
    R"({"metadata":{"total_size":60,"x":[{"weight_map":{}},null,1.5,true]},
        "weight_map":{"c":"2.safetensors","a":"1.safetensors","b":"1.safetensors"}})";

TEST_F(SafetensorsIndex, ReadsEachTensorFromItsShard) {
  const std::string path = index(kWhole);
  for (const std::string& opened : {path, folder_.path("model")}) {
    const TensorFile file = TensorFile::open(opened);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.format(), "safetensors");
    ASSERT_EQ(file.tensors().size(), 3);
    EXPECT_TRUE(same_bits(file.read("a"), a_)) << "the other shard has an 'a' as well";
    EXPECT_TRUE(same_bits(file.read("b"), b_));
    EXPECT_TRUE(same_bits(file.read("c"), c_));
    EXPECT_EQ(file.metadata(), (Metadata{{"k", "one"}, {"l", "two"}}));
  }
}

TEST_F(SafetensorsIndex, RelativePaths) {
  index(kWhole);
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path("model"));
  EXPECT_TRUE(same_bits(TensorFile::open(kIndex).read("a"), a_));
  fs::current_path(before);
}

TEST_F(SafetensorsIndex, ShardsThatAreNoPlainNames) {
  for (const char* name :
       {"../outside.safetensors", "/etc/passwd", "./1.safetensors", "..", ".", "",
        "x/../1.safetensors", "..\\\\outside.safetensors", "1.safetensors\\u0000x"}) {
    EXPECT_TRUE(refused(map_of(name), "no plain name")) << name;
  }
}

TEST_F(SafetensorsIndex, SymbolicLinks) {
  fs::create_symlink("../outside.safetensors", folder_.path("model/out.safetensors"));
  fs::create_symlink("1.safetensors", folder_.path("model/in.safetensors"));
  const auto open = [&](const char* name, const char* tensor) {
    return TensorFile::open(map_of(name, tensor));
  };
  EXPECT_TRUE(file_error([&] { (void)open("out.safetensors", "o"); },
                         folder_.path("model/out.safetensors"), "symbolic link out of the folder"));
  EXPECT_TRUE(same_bits(open("in.safetensors", "a").read("a"), a_));
}

// The cache of Hugging Face: snapshots/<revision>/name → ../../blobs/<hash>.
TEST_F(SafetensorsIndex, LinksOfAHuggingFaceCache) {
  const std::string revision = folder_.path("snapshots/4f5e");
  fs::create_directories(revision);
  fs::create_directory(folder_.path("blobs"));
  fs::copy(folder_.path("model/1.safetensors"), folder_.path("blobs/d1"));
  folder_.write("blobs/d2", R"({"weight_map":{"a":"1.safetensors"}})");
  fs::create_symlink("../../blobs/d1", revision + "/1.safetensors");
  fs::create_symlink("../../blobs/d2", revision + "/" + kIndex);
  EXPECT_TRUE(same_bits(TensorFile::open(revision).read("a"), a_));

  fs::remove(revision + "/1.safetensors");
  fs::create_symlink("../../outside.safetensors", revision + "/1.safetensors");
  EXPECT_TRUE(file_error([&] { (void)TensorFile::open(revision); }, revision + "/1.safetensors",
                         "symbolic link out of the folder"));
}

TEST_F(SafetensorsIndex, ShardsThatAreNotThere) {
  const auto open = [&](const std::string& path) {
    return [path] { (void)TensorFile::open(path); };
  };
  EXPECT_TRUE(file_error(open(map_of("3.safetensors")), folder_.path("model/3.safetensors"),
                         "No such file"));
  EXPECT_TRUE(file_error(open(map_of("1.safetensors", "z")), folder_.path("model/1.safetensors"),
                         "has no tensor 'z', which its index promises"));
  folder_.write("model/4.safetensors", "damaged");
  EXPECT_TRUE(
      file_error(open(map_of("4.safetensors")), folder_.path("model/4.safetensors"), "too short"));
  fs::create_directory(folder_.path("model/5.safetensors"));
  EXPECT_TRUE(file_error(open(map_of("5.safetensors")), folder_.path("model/5.safetensors"),
                         "not a regular file"));
}

TEST_F(SafetensorsIndex, IndexesThatAreNone) {
  EXPECT_TRUE(refused(index(""), "no valid JSON"));
  EXPECT_TRUE(refused(index("{"), "no valid JSON"));
  EXPECT_TRUE(refused(index("[]"), "the index is an array"));
  EXPECT_TRUE(refused(index("null"), "the index is null"));
  EXPECT_TRUE(refused(index("{}"), "no weight_map"));
  EXPECT_TRUE(refused(index(R"({"weight_map":[]})"), "weight_map is an array"));
  EXPECT_TRUE(refused(index(R"({"weight_map":"x"})"), "weight_map is a text"));
  EXPECT_TRUE(refused(index(R"({"weight_map":{"a":1}})"), "weight_map, 'a': a number"));
  EXPECT_TRUE(refused(index(R"({"weight_map":{"a":{}}})"), "weight_map, 'a': an object"));
  EXPECT_TRUE(refused(index(R"({"weight_map":{"a":[]}})"), "weight_map, 'a': an array"));
  EXPECT_TRUE(refused(index(R"({"weight_map":{"a":null}})"), "weight_map, 'a': null"));
  EXPECT_TRUE(refused(index(R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})"),
                      "the tensor 'a' twice"));
  EXPECT_TRUE(refused(index(R"({"weight_map":{},"weight_map":{}})"), "weight_map appears twice"));
  EXPECT_TRUE(refused(index("{\"x\":" + std::string(100'000, '[')), "no valid JSON"));
}

TEST_F(SafetensorsIndex, AnIndexOfMoreThanAHundredMegabytes) {
  const std::string path = index("{}");
  fs::resize_file(path, 100'000'001);
  EXPECT_TRUE(refused(path, "100000001 bytes, more than 100000000"));
}

}  // namespace
}  // namespace headwise
