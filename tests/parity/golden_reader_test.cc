// The reader of golden files: a damaged file must not pass for one with fewer or other cases.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/golden.h"

namespace headwise::test_support {
namespace {

// Runs `call`, which must throw a std::runtime_error with `reason` in its message.
template <typename Call>
void expect_refused(Call call, const std::string& reason) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown for: " << reason;
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos)
        << error.what() << "\nbut expected: " << reason;
  }
}

void expect_file_refused(const std::string& path, const std::string& reason) {
  expect_refused([&] { read_golden(path); }, reason);
}

class GoldenReader : public ::testing::Test {
 protected:
  // A file of this header and these bytes of data; `header_size` if it is to lie.
  [[nodiscard]] std::string write(const std::string& header, const std::string& data,
                                  std::optional<std::uint64_t> header_size = {}) const {
    const std::uint64_t size = header_size.value_or(header.size());
    std::string length(sizeof size, '\0');
    std::memcpy(length.data(), &size, sizeof size);
    std::ofstream(path_, std::ios::binary) << length << header << data;
    return path_;
  }

  static std::string header(const std::string& tensor) {
    return R"({"__metadata__":{"a":"{\"size\":3}"},)" + tensor + "}";
  }

 private:
  std::string path_ = ::testing::TempDir() + "headwise_golden_reader.safetensors";
};

TEST_F(GoldenReader, ReadsTensorsAndOptions) {
  const auto path = write(header(R"("a/x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]})"),
                          std::string("\1\0", 2));
  GoldenCase golden = read_golden(path).at("a");
  EXPECT_EQ(golden.unused(), (std::vector<std::string>{"tensor x", "option size"}));
  EXPECT_TRUE(golden.bools("x").data()[0]);
  EXPECT_FALSE(golden.bools("x").data()[1]);
  EXPECT_EQ(golden.option<int>("size"), 3);
  EXPECT_TRUE(golden.unused().empty());
}

TEST_F(GoldenReader, SaysWhatIsNotThere) {
  const auto path = write(header(R"("a/x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})"), "");
  GoldenCase golden = read_golden(path).at("a");
  expect_refused([&] { golden.floats("y"); }, "case a: no tensor y");
  expect_refused([&] { golden.indices("x"); }, "case a: tensor x is not I64");
  expect_refused([&] { golden.option<int>("depth"); }, "case a: no option depth");
}

TEST_F(GoldenReader, RefusesDamagedFiles) {
  expect_file_refused(write("{}", "", 1000), "truncated or damaged");
  expect_file_refused(write(R"({"__metadata__")", ""), "no valid JSON");
  expect_file_refused(write(R"({"__metadata__":{"a":"{"}})", ""), "parse error");
  expect_file_refused(write(R"({"__metadata__":{"a":"[]"}})", ""), "options are no object");
  expect_file_refused(write("{}", ""), "no case in the metadata");
  expect_file_refused("no such file", "No such file");
}

TEST_F(GoldenReader, RefusesTensorsThatCannotBe) {
  const std::string four(4, '\0');
  expect_file_refused(
      write(header(R"("a/x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]})"), four),
      "tensor 'a/x': F32 of shape (1,) takes 4 bytes, but data_offsets give it 8");
  expect_file_refused(
      write(header(R"("a/x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), four),
      "tensor 'a/x': F32 of shape (2,) takes 8 bytes, but data_offsets give it 4");
  expect_file_refused(
      write(header(R"("a/x":{"dtype":"F16","shape":[2],"data_offsets":[0,4]})"), four),
      "dtype F16");
  expect_file_refused(
      write(header(R"("b/x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), four),
      "tensor b/x: belongs to no case");
}

}  // namespace
}  // namespace headwise::test_support
