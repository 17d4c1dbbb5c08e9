// safetensors files that are damaged or made to do damage: each is one clear line.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/io.h"
#include "io/bytes.h"
#include "io/expect_file_error.h"
#include "io/temporary_folder.h"

namespace headwise {
namespace {

using test_support::refused;
using test_support::safetensors_bytes;

struct Hostile {
  const char* header;
  std::size_t data_bytes;
  const char* mentions;
};

class HostileSafetensors : public ::testing::Test {
 protected:
  ::testing::AssertionResult refused_bytes(const std::string& bytes, const std::string& mentions) {
    return refused(folder_.write("a.safetensors", bytes), mentions);
  }
  ::testing::AssertionResult refused_header(const Hostile& file) {
    return refused_bytes(safetensors_bytes(file.header, std::string(file.data_bytes, '\0')),
                         file.mentions);
  }
  void expect_all_refused(const std::vector<Hostile>& files) {
    for (const Hostile& file : files) EXPECT_TRUE(refused_header(file)) << file.header;
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(HostileSafetensors, TheSmallestSoundFilesAreRead) {
  EXPECT_TRUE(
      TensorFile::open(folder_.write("a.safetensors", safetensors_bytes("{}"))).tensors().empty());
  const auto bytes = safetensors_bytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                       std::string(4, '\0'));
  EXPECT_EQ(TensorFile::open(folder_.write("a.safetensors", bytes)).tensors().size(), 1);
}

TEST_F(HostileSafetensors, LengthOfTheHeader) {
  EXPECT_TRUE(refused_bytes("", "is empty"));
  EXPECT_TRUE(refused_bytes("1234567", "too short"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("", "", 0), "length 0"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{}", "", 0), "length 0"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{}", "", 3), "has only 2 more"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{}", "", 100'000'001), "more than 100000000"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{}", "", ~0ULL), "more than 100000000"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{}", "", ~0ULL - 7), "more than 100000000"));
}

TEST_F(HostileSafetensors, HeaderThatIsNoJson) {
  expect_all_refused({
      {"[]", 0, "does not begin with {"},
      {" {}", 0, "does not begin with {"},
      {"\xEF\xBB\xBF{}", 0, "does not begin with {"},
      {"{", 0, "no valid JSON"},
      {"{}x", 0, "no valid JSON"},
      {"{\"a\":", 0, "no valid JSON"},
      {"{\"a\xFF\":{}}", 0, "UTF-8"},
      {"{\"\\ud800\":{}}", 0, "no valid JSON"},
      {"{\"a\nb\":{}}", 0, "control character"},
  });
  EXPECT_TRUE(refused_bytes(safetensors_bytes(std::string("{}\0", 3)), "no valid JSON"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{" + std::string(100'000, '[')), "no valid JSON"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes("{\"a\":" + std::string(1'000'000, '[')),
                            "an array instead of a JSON object"));
}

TEST_F(HostileSafetensors, DuplicateKeys) {
  expect_all_refused({
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
           "a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "tensor 'a' appears twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "tensor 'a': dtype appears twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4,
       "shape appears twice"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "the key 'k' twice"},
      {R"({"__metadata__":{"k":"1"},"__metadata__":{"k":"1"}})", 0, "__metadata__ appears twice"},
  });
}

TEST_F(HostileSafetensors, Offsets) {
  expect_all_refused({
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "reversed: 4, 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
           "b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       6, "tensor 'b' has bytes 2 to 6 of the data, which overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
           "b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "overlap"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
           "b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
       8, "overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       "bytes 0 to 4 of the data belong to no tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
           "b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
       12, "bytes 4 to 8 of the data belong to no tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5,
       "bytes 4 to 5 of the data belong to no tensor"},
      {"{}", 1, "bytes 0 to 1 of the data belong to no tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "not two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,2,4]}})", 4, "not two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", 4, "no integer of 64 bits"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]}})", 4,
       "no integer of 64 bits"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,
           18446744073709551615]}})",
       0, "but there are only 0"},
  });
}

TEST_F(HostileSafetensors, TruncatedFile) {
  const std::string whole = safetensors_bytes(
      R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", std::string(16, '\1'));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(refused_bytes(whole.substr(0, size), "")) << size << " bytes";
  }
  EXPECT_TRUE(refused_bytes(whole.substr(0, whole.size() - 1), "there are only 15"));
}

TEST_F(HostileSafetensors, ShapesAndTypes) {
  expect_all_refused({
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "tensor 'a': shape (4294967296, 4294967296) has more elements than 64 bits can count"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0,
       "more elements"},
      {R"({"a":{"dtype":"F32","shape":[0,9223372036854775807,2],"data_offsets":[0,0]}})", 0,
       "more elements"},
      {R"({"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}})", 0,
       "more bytes than 64 bits can count"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4,
       "more than 8 dimensions"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "shape: unexpected a number"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "unexpected an array"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "unexpected a text"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'F31'"},
      {R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'f32'"},
      {R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype: unexpected a number"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "F32 of shape (2,) takes 8 bytes, but data_offsets give it 4"},
      {R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}})", 8, "takes 4 bytes"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, "ends within a byte"},
  });
}

TEST_F(HostileSafetensors, EntriesThatLackOrHaveMore) {
  expect_all_refused({
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "has no dtype"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "has no shape"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "has no data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "unknown key 'x'"},
      {R"({"a":5})", 0, "tensor 'a': a number instead of a JSON object"},
      {R"({"a":null})", 0, "tensor 'a': null instead of a JSON object"},
      {R"({"a":"F32"})", 0, "tensor 'a': a text instead of a JSON object"},
      {R"({"a":{"dtype":{"x":1}}})", 0, "dtype: unexpected an object"},
  });
}

TEST_F(HostileSafetensors, MetadataThatIsNotText) {
  expect_all_refused({
      {R"({"__metadata__":{"k":1}})", 0, "'k': a number instead of a text"},
      {R"({"__metadata__":{"k":{"l":"m"}}})", 0, "'k': an object instead of a text"},
      {R"({"__metadata__":{"k":["l"]}})", 0, "'k': an array instead of a text"},
      {R"({"__metadata__":{"k":null}})", 0, "'k': null instead of a text"},
      {R"({"__metadata__":{"k":true}})", 0, "'k': a truth value instead of a text"},
      {R"({"__metadata__":"k"})", 0, "a text instead of a JSON object"},
      {R"({"__metadata__":["k"]})", 0, "an array instead of a JSON object"},
  });
}

// Names are the file's; what is printed is ours.
TEST_F(HostileSafetensors, NamesThatCommandTerminals) {
  EXPECT_TRUE(refused_bytes(safetensors_bytes(R"({"\u001b[2Jx\ny":1})"), R"('\x1b[2Jx\x0ay')"));
  EXPECT_TRUE(refused_bytes(safetensors_bytes(R"({"\u009b31m":1})"), R"('\xc2\x9b31m')"));
  EXPECT_TRUE(
      refused_bytes(safetensors_bytes("{\"" + std::string(100'000, 'x') + "\":1}"), "xxx…'"));
}

}  // namespace
}  // namespace headwise
