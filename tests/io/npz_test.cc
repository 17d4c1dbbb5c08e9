// npz: zips of npy arrays, sound ones and bombs.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "headwise/error.h"
#include "headwise/io.h"
#include "io/bytes.h"
#include "io/expect_file_error.h"
#include "io/temporary_folder.h"
#include "io/zip_bytes.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::file_error;
using test_support::little_endian;
using test_support::npy_bytes;
using test_support::refused;
using test_support::same_bits;
using test_support::zip_bytes;
using test_support::ZipPart;

std::string array(const std::string& descr, const std::string& shape, const std::string& data) {
  return npy_bytes("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n",
                   data);
}
std::string two_floats() { return array("<f4", "(2,)", little_endian(1.0F) + little_endian(2.0F)); }

// Deflate without compression: a header of five bytes, then the bytes as they are.
std::string deflated(const std::string& bytes) {
  const auto size = static_cast<std::uint16_t>(bytes.size());
  return '\1' + little_endian(size) + little_endian(static_cast<std::uint16_t>(~size)) + bytes;
}

class Npz : public ::testing::Test {
 protected:
  std::string write(const std::vector<ZipPart>& parts) {
    return folder_.write("x.npz", zip_bytes(parts));
  }
  TensorFile open(const std::vector<ZipPart>& parts) { return TensorFile::open(write(parts)); }

  test_support::TemporaryFolder folder_;
};

TEST_F(Npz, ListsAndReadsArrays) {
  const TensorFile file = open({{"b.npy", two_floats()},
                                {"a.npy", array(">i2", "(1, 1)", std::string("\xFF\xFE", 2))},
                                {"a-b.npy", array("|b1", "()", "\1")},
                                {"notes.txt", "not an array"},
                                {"folder/", ""}});
  EXPECT_EQ(file.format(), "npz");
  EXPECT_TRUE(file.metadata().empty());
  ASSERT_EQ(file.tensors().size(), 3);
  EXPECT_EQ(file.tensors()[0].name, "a") << "sorted without the suffix, '.' comes after '-'";
  EXPECT_EQ(file.tensors()[0].dtype, "I16");
  EXPECT_EQ(file.tensors()[1].name, "a-b");
  EXPECT_EQ(file.tensors()[2].name, "b");
  EXPECT_TRUE(
      same_bits(std::get<IndexTensor>(file.read_any("a")), IndexTensor::from({1, 1}, {-2})));
  EXPECT_TRUE(
      same_bits(std::get<BoolTensor>(file.read_any("a-b")), BoolTensor::from(Shape{}, {true})));
  EXPECT_TRUE(same_bits(file.read("b"), Tensor::from({2}, {1, 2})));
  EXPECT_TRUE(file_error([&] { (void)file.read("c"); }, file.path(), "has no tensor 'c'"));
}

TEST_F(Npz, DeflatedEntries) {
  const std::string bytes = two_floats();
  const TensorFile file = open({{.name = "x.npy",
                                 .bytes = deflated(bytes),
                                 .method = 8,
                                 .size = static_cast<std::uint32_t>(bytes.size()),
                                 .crc = test_support::crc32(bytes)}});
  EXPECT_TRUE(same_bits(file.read("x"), Tensor::from({2}, {1, 2})));
}

TEST_F(Npz, ArraysThatCannotBeReadStandBesideOthers) {
  const TensorFile file = open({{"o.npy", array("|O", "(1,)", "\x80\4K\1.")},
                                {"t.npy", array("<U3", "(1,)", std::string(12, 'x'))},
                                {"x.npy", two_floats()}});
  ASSERT_EQ(file.tensors().size(), 3);
  EXPECT_EQ(file.tensors()[0].dtype, "|O");
  EXPECT_TRUE(same_bits(file.read("x"), Tensor::from({2}, {1, 2})));
  EXPECT_TRUE(file_error([&] { (void)file.read("o"); }, file.path(),
                         "tensor 'o': holds Python objects, which are never unpickled"));
  EXPECT_TRUE(
      file_error([&] { (void)file.read_any("t"); }, file.path(), "tensor 't': holds texts"));
}

TEST_F(Npz, WrittenTwiceIsTheSameAndReadsTheSame) {
  const TensorMap tensors = {{"a", Tensor::normal({100, 33}, 1)},
                             {"a/b.c", Tensor::normal({}, 2)},
                             {"é", Tensor({0, 3})},
                             {"..", Tensor({1})},  // "...npy" leads nowhere
                             {"", Tensor({2})}};
  write_npz(folder_.path("x.npz"), tensors);
  write_npz(folder_.path("y.npz"), tensors);
  EXPECT_EQ(folder_.read("x.npz"), folder_.read("y.npz"));
  EXPECT_EQ(folder_.read("x.npz").substr(10, 4), std::string("\0\0\x21\0", 4))
      << "the first of January 1980, not the time of writing";
  const TensorFile file = TensorFile::open(folder_.path("x.npz"));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bits(file.read(name), tensor));
}

TEST_F(Npz, WithoutArrays) {
  write_npz(folder_.path("x.npz"), {});
  const TensorFile file = TensorFile::open(folder_.path("x.npz"));
  EXPECT_EQ(file.format(), "npz");
  EXPECT_TRUE(file.tensors().empty());
}

TEST_F(Npz, ManyThreadsReadAtOnce) {
  const TensorMap tensors = {{"a", Tensor::normal({500, 100}, 1)},
                             {"b", Tensor::normal({7000}, 2)}};
  write_npz(folder_.path("x.npz"), tensors);
  const TensorFile file = TensorFile::open(folder_.path("x.npz"));
  std::vector<std::thread> threads;
  std::vector<Tensor> read(8);
  for (std::size_t i = 0; i < read.size(); ++i) {
    threads.emplace_back([&, i] { read[i] = file.read(i % 2 == 0 ? "a" : "b"); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_TRUE(same_bits(read[i], tensors.at(i % 2 == 0 ? "a" : "b")));
  }
}

TEST_F(Npz, NamesThatCannotBeWritten) {
  for (const char* name : {"../a", "a/../../b", "/a", "a\\b", "\xFF"}) {
    EXPECT_THROW(write_npz(folder_.path("x.npz"), {{name, Tensor({1})}}), ArgumentError) << name;
  }
  EXPECT_TRUE(folder_.names().empty()) << "an error must leave no file";
}

TEST_F(Npz, HostileNames) {
  for (const char* name : {"../x.npy", "a/../../x.npy", "/x.npy", "..", "..\\x.npy"}) {
    EXPECT_TRUE(refused(write({{"a.npy", two_floats()}, {name, two_floats()}}),
                        "named like a path out of the archive"))
        << name;
  }
  EXPECT_TRUE(refused(write({{"a.npy", two_floats()}, {"a.npy", two_floats()}}),
                      "entry 'a.npy' appears twice"));
}

TEST_F(Npz, EntriesThatAreEncryptedOrPackedOtherwise) {
  EXPECT_TRUE(refused(write({{.name = "a.npy", .bytes = two_floats(), .flags = 1}}), "encrypted"));
  for (const std::uint16_t method : std::vector<std::uint16_t>{1, 9, 12, 14, 93, 95}) {
    EXPECT_TRUE(refused(write({{.name = "a.npy", .bytes = two_floats(), .method = method}}),
                        "packed by method " + std::to_string(method)));
  }
}

TEST_F(Npz, Bombs) {
  const auto grown = [&](std::size_t packed, std::uint32_t size) {
    return write({{"a.npy", deflated(std::string(packed, '\0')), 8, 0, size}});
  };
  EXPECT_TRUE(refused(grown(65'000, 67'109'000), "claims to grow from 65005 to 67109000 bytes"));
  EXPECT_TRUE(refused(grown(65'500, 67'109'000), "as a zip bomb does"));
  EXPECT_TRUE(refused(write({{"a.npy", two_floats(), 0, 0, 1'000'000}}), "which it cannot"));
  // Fifty entries that share the bytes of the first.
  std::vector<ZipPart> parts(50, {.name = "", .bytes = two_floats(), .offset = 0});
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].name = std::to_string(i) + ".npy";
  const std::string whole = zip_bytes(parts);
  const std::size_t first = 30 + parts[0].name.size() + parts[0].bytes.size();
  const std::size_t directory = whole.find("PK\1\2");
  std::string overlapping = whole.substr(0, first) + whole.substr(directory);
  overlapping.replace(overlapping.size() - 6, 4, little_endian(static_cast<std::uint32_t>(first)));
  EXPECT_TRUE(refused(folder_.write("x.npz", overlapping), "more bytes than the file"));
}

// Unpacks to more or less than it says.
TEST_F(Npz, EntriesThatLieAboutTheirSize) {
  const std::string bytes = two_floats();
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const auto part = [&](const std::string& packed, std::uint32_t claimed) {
    return ZipPart{.name = "a.npy",
                   .bytes = deflated(packed),
                   .method = 8,
                   .size = claimed,
                   .crc = test_support::crc32(packed)};
  };
  const auto read = [&] { (void)TensorFile::open(folder_.path("x.npz")).read("a"); };
  EXPECT_NO_THROW((void)open({part(bytes, size)}).read("a"));
  write({part(bytes + "more", size)});
  EXPECT_TRUE(file_error(read, folder_.path("x.npz"), "tensor 'a': "));
  write({part(bytes.substr(0, bytes.size() - 1), size)});
  EXPECT_TRUE(file_error(read, folder_.path("x.npz"), "tensor 'a': "));
  EXPECT_TRUE(refused(write({part(bytes, size + 1)}), "8 bytes, but 9 follow"));
  EXPECT_TRUE(refused(write({part(bytes, 3)}), "8 bytes, but 0 follow"));
}

TEST_F(Npz, DamagedNumbersAreNoticed) {
  std::string bytes = zip_bytes({{"a.npy", two_floats()}});
  bytes[bytes.find("PK\1\2") - 1] = 'x';
  const TensorFile file = TensorFile::open(folder_.write("x.npz", bytes));
  EXPECT_TRUE(file_error([&] { (void)file.read("a"); }, file.path(), "CRC"));
}

TEST_F(Npz, HostileArrays) {
  EXPECT_TRUE(refused(write({{"a.npy", "no array"}}), "entry 'a.npy': "));
  EXPECT_TRUE(refused(write({{"a.npy", ""}}), "entry 'a.npy': ends within the npy header"));
  EXPECT_TRUE(refused(write({{"a.npy", array("<f4", "(1073741824,)", "1234")}}),
                      "entry 'a.npy': the npy header claims shape (1073741824,) of F32, 4294967296 "
                      "bytes, but 4 follow"));
  EXPECT_TRUE(refused(write({{"a.npy", array("<f4", "(-1,)", "1234")}}), "negative"));
}

TEST_F(Npz, TruncatedFile) {
  const std::string whole = zip_bytes({{"a.npy", two_floats()}, {"b.npy", two_floats()}});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_TRUE(refused(folder_.write("x.npz", whole.substr(0, size)), "")) << size << " bytes";
  }
  EXPECT_TRUE(
      refused(folder_.write("x.npz", whole.substr(0, whole.size() - 1)), "no readable zip"));
}

}  // namespace
}  // namespace headwise
