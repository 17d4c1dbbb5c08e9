// What a file is, told by its content; and what is said of files that are none of ours.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "headwise/io.h"
#include "io/bytes.h"
#include "io/expect_file_error.h"
#include "io/quoted.h"
#include "io/temporary_folder.h"
#include "io/utf8.h"
#include "io/zip_bytes.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::refused;
using test_support::same_bits;
using test_support::zip_bytes;

class AnyFile : public ::testing::Test {
 protected:
  ::testing::AssertionResult refused_bytes(const std::string& bytes, const std::string& mentions) {
    return refused(folder_.write("file", bytes), mentions);
  }
  test_support::TemporaryFolder folder_;
};

TEST_F(AnyFile, TheNameDoesNotMatter) {
  const Tensor a = Tensor::normal({3}, 1);
  write_safetensors(folder_.path("a.npy"), {{"a", a}});
  EXPECT_EQ(TensorFile::open(folder_.path("a.npy")).format(), "safetensors");
  write_npz(folder_.path("a.safetensors"), {{"a", a}});
  EXPECT_EQ(TensorFile::open(folder_.path("a.safetensors")).format(), "npz");
  write_npy(folder_.path("a.npz"), a);
  EXPECT_EQ(TensorFile::open(folder_.path("a.npz")).format(), "npy");
}

// A safetensors file begins with its header's length: some lengths look like another format.
TEST_F(AnyFile, LengthsThatLookLikeAPickleOrAGzip) {
  for (const std::size_t length : {0x0280UL, 0x0380UL, 0x0480UL, 0x0580UL, 0x8b1fUL}) {
    const std::string bytes = test_support::safetensors_bytes("{}" + std::string(length - 2, ' '));
    EXPECT_EQ(TensorFile::open(folder_.write("file", bytes)).format(), "safetensors") << length;
  }
}

TEST_F(AnyFile, MovesAndOutlivesItsName) {
  write_safetensors(folder_.path("a"), {{"a", Tensor::full({2}, 5)}});
  TensorFile first = TensorFile::open(folder_.path("a"));
  write_safetensors(folder_.path("b"), {{"b", Tensor::full({2}, 6)}});
  TensorFile second = TensorFile::open(folder_.path("b"));
  std::filesystem::remove(folder_.path("a"));
  second = std::move(first);
  EXPECT_TRUE(same_bits(second.read("a"), Tensor::full({2}, 5)));
}

TEST_F(AnyFile, WhatCannotBeOpened) {
  EXPECT_TRUE(refused(folder_.path("none"), "No such file"));
  EXPECT_TRUE(refused("", "No such file"));
  EXPECT_TRUE(refused(folder_.path(), "is a folder without model.safetensors"));
  EXPECT_TRUE(refused("/dev/null", "not a regular file"));
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(refused(folder_.path("pipe"), "not a regular file")) << "and does not wait";
  std::filesystem::create_symlink("loop", folder_.path("loop"));
  EXPECT_TRUE(refused(folder_.path("loop"), "symbolic links"));
}

TEST_F(AnyFile, AFolderWithAPickleAlone) {
  const std::string pickle = folder_.path("pytorch_model.bin");
  std::ofstream(pickle, std::ios::binary) << "\x80\x02}q.";
  EXPECT_TRUE(test_support::file_error([&] { TensorFile::open(folder_.path()); }, pickle,
                                       "is a pickle, which may run any program"));
}

TEST_F(AnyFile, TheModelOfAFolder) {
  write_safetensors(folder_.path("model.safetensors"), {{"a", Tensor::full({1}, 3)}});
  const TensorFile file = TensorFile::open(folder_.path());
  EXPECT_EQ(file.path(), folder_.path("model.safetensors"));
  EXPECT_EQ(file.read("a").values()[0], 3);
  folder_.write("model.safetensors", "damaged");
  EXPECT_TRUE(test_support::file_error([&] { (void)TensorFile::open(folder_.path()); },
                                       folder_.path("model.safetensors"), "too short"));
}

TEST_F(AnyFile, NothingWellKnown) {
  EXPECT_TRUE(refused_bytes("", "is empty"));
  EXPECT_TRUE(refused_bytes("x", "no known format; safetensors, npy, npz"));
  EXPECT_TRUE(refused_bytes(std::string(1000, '\0'), "no known format"));
  EXPECT_TRUE(refused_bytes(std::string(1000, '\xFF'), "no known format"));
}

TEST_F(AnyFile, FilesOfOthers) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(refused_bytes("GGUF\3\0\0\0"s, "a GGUF model"));
  EXPECT_TRUE(refused_bytes("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", "safetensors.torch"));
  EXPECT_TRUE(refused_bytes("\x80\4\x95\x0a\0\0\0\0\0\0\0}."s, "a pickle"));
  EXPECT_TRUE(refused_bytes(zip_bytes({{"archive/data.pkl", "\x80\2}."}, {"archive/version", "3"}}),
                            "a PyTorch file with a pickle"));
  EXPECT_TRUE(refused_bytes(zip_bytes({{"a.txt", "hello"}}), "without npy arrays"));
  EXPECT_TRUE(refused_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n",
                            "git lfs pull"));
  EXPECT_TRUE(refused_bytes("\x1f\x8b\x08\0\0\0\0\0\0\3x"s, "gzip"));
  EXPECT_TRUE(refused_bytes("\x1c\0\0\0TFL3\x14\0\0\0"s, "TensorFlow Lite"));
  EXPECT_TRUE(refused_bytes(std::string(257, 'a') + "ustar\0"s, "tar archive"));
  EXPECT_TRUE(refused_bytes("<!DOCTYPE html><title>404</title>", "a web page"));
  EXPECT_TRUE(refused_bytes("{\"weight_map\": {}}", ".index.json"));
}

TEST(Quoted, IsOneReadableLine) {
  EXPECT_EQ(io::quoted(""), "''");
  EXPECT_EQ(io::quoted("слой/é/層/😀"), "'слой/é/層/😀'");
  EXPECT_EQ(io::quoted(std::string("a\0b\x7f\n\x1b[31m", 10)), R"('a\x00b\x7f\x0a\x1b[31m')");
  EXPECT_EQ(io::quoted("\xC2\x85\xFF\xE2\x82"), R"('\xc2\x85\xff\xe2\x82')");
  EXPECT_EQ(io::quoted(std::string(1000, 'x')), std::string("'").append(99, 'x').append("…'"));
  const std::string cut_in_a_character = std::string(98, 'x').append("éé");
  EXPECT_TRUE(io::is_utf8(io::quoted(cut_in_a_character))) << "cut between characters";
}

// Against the table of well-formed sequences of the Unicode standard (table 3-7).
TEST(Utf8, TheBoundsOfEveryRow) {
  for (const char* sound :
       {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(io::is_utf8(sound)) << io::quoted(sound);
  }
  for (const char* wrong :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x7F", "\xC2\xC0", "\xE0\x9F\xBF",
        "\xED\xA0\x80", "\xED\xBF\xBF", "\xE1\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xF0\x90\x80", "\xFF", "a\x80"}) {
    EXPECT_FALSE(io::is_utf8(wrong));
  }
}

}  // namespace
}  // namespace headwise
