// safetensors files as they should be: every type of number, in any order, exactly.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "headwise/error.h"
#include "headwise/io.h"
#include "io/bytes.h"
#include "io/expect_file_error.h"
#include "io/temporary_folder.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::file_error;
using test_support::little_endian;
using test_support::safetensors_bytes;
using test_support::same_bits;

class Safetensors : public ::testing::Test {
 protected:
  // A file of one tensor "x" with these numbers.
  template <typename T>
  TensorFile file_of(const std::string& dtype, const std::vector<T>& values) {
    std::string data;
    for (const T value : values) data += little_endian(value);
    const std::string header = R"({"x":{"dtype":")" + dtype + R"(","shape":[)" +
                               std::to_string(values.size()) + R"(],"data_offsets":[0,)" +
                               std::to_string(data.size()) + "]}}";
    return TensorFile::open(folder_.write("x.safetensors", safetensors_bytes(header, data)));
  }
  template <typename T>
  std::vector<std::int64_t> integers(const std::string& dtype, const std::vector<T>& values) {
    const auto tensor = std::get<IndexTensor>(file_of(dtype, values).read_any("x"));
    return {tensor.values().begin(), tensor.values().end()};
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(Safetensors, ListsNamesShapesTypesAndMetadata) {
  const auto bytes =
      safetensors_bytes(R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
                        R"("__metadata__":{"format":"pt","é":"\"\n"},)"
                        R"("a":{"data_offsets":[0,2],"shape":[],"dtype":"BF16"},)"
                        R"("":{"dtype":"I64","shape":[0,5],"data_offsets":[10,10]}}   )",
                        std::string(10, '\0'));
  const TensorFile file = TensorFile::open(folder_.write("x.bin", bytes));
  EXPECT_EQ(file.format(), "safetensors");
  EXPECT_EQ(file.path(), folder_.path("x.bin"));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"é", "\"\n"}}));
  ASSERT_EQ(file.tensors().size(), 3);
  EXPECT_EQ(file.tensors()[0].name, "");
  EXPECT_EQ(file.tensors()[0].shape, (Shape{0, 5}));
  EXPECT_EQ(file.tensors()[0].dtype, "I64");
  EXPECT_EQ(file.tensors()[1].name, "a");
  EXPECT_EQ(file.tensors()[1].shape, Shape{});
  EXPECT_EQ(file.tensors()[1].dtype, "BF16");
  EXPECT_EQ(file.tensors()[2].name, "b");
  EXPECT_EQ(file.tensors()[2].shape, (Shape{2, 1}));
  EXPECT_TRUE(file.contains("a"));
  EXPECT_TRUE(file.contains(""));
  EXPECT_FALSE(file.contains("aa"));
}

TEST_F(Safetensors, Float32KeepsEveryBit) {
  std::vector<std::uint32_t> bits = {0, 0x80000000U, 1, 0x7F800001U, 0x7FC12345U, 0xFF800000U};
  const Tensor read = file_of("F32", bits).read("x");
  for (std::size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read.values()[i]), bits[i]);
  }
}

// All 65536 of them, against the compiler's own 16-bit type; NaNs keep their payload.
TEST_F(Safetensors, EveryFloat16) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const Tensor read = file_of("F16", all).read("x");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(all[i]));
    const float value = read.values()[i];
    if (std::isnan(expected)) {
      const auto sign = (static_cast<std::uint32_t>(i) & 0x8000U) << 16U;
      const auto payload = (static_cast<std::uint32_t>(i) & 0x3FFU) << 13U;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), sign | 0x7F800000U | payload) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << i;
    }
  }
}

TEST_F(Safetensors, EveryBfloat16) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const Tensor read = file_of("BF16", all).read("x");
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read.values()[i]), i << 16U);
  }
}

TEST_F(Safetensors, Float64IsRounded) {
  const double third = 1.0 / 3;
  const Tensor read = file_of("F64", std::vector<double>{third, -0.0, 1e300, 1e-46}).read("x");
  EXPECT_EQ(read.values()[0], 0.333333343F);
  EXPECT_TRUE(std::signbit(read.values()[1]) && read.values()[1] == 0);
  EXPECT_EQ(read.values()[2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(read.values()[3], 0);
}

TEST_F(Safetensors, Integers) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(integers("I8", std::vector<std::int8_t>{-128, 127}), (List{-128, 127}));
  EXPECT_EQ(integers("U8", std::vector<std::uint8_t>{0, 255}), (List{0, 255}));
  EXPECT_EQ(integers("I16", std::vector<std::int16_t>{-32768, 32767}), (List{-32768, 32767}));
  EXPECT_EQ(integers("U16", std::vector<std::uint16_t>{65535}), (List{65535}));
  EXPECT_EQ(integers("I32", std::vector<std::int32_t>{-2147483647 - 1}), (List{-2147483648}));
  EXPECT_EQ(integers("U32", std::vector<std::uint32_t>{4294967295U}), (List{4294967295}));
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(integers("I64", List{kLeast, kMost}), (List{kLeast, kMost}));
  EXPECT_EQ(integers("U64", std::vector<std::uint64_t>{kMost}), (List{kMost}));
}

TEST_F(Safetensors, AnUnsignedNumberThatDoesNotFit) {
  const TensorFile file = file_of("U64", std::vector<std::uint64_t>{1, 1ULL << 63U});
  EXPECT_TRUE(file_error([&] { (void)file.read_any("x"); }, folder_.path("x.safetensors"),
                         "tensor 'x': holds 9223372036854775808"));
}

TEST_F(Safetensors, TruthValues) {
  const auto file = file_of("BOOL", std::vector<std::uint8_t>{0, 1, 2, 255});
  EXPECT_TRUE(same_bits(std::get<BoolTensor>(file.read_any("x")),
                        BoolTensor::from({4}, {false, true, true, true})));
}

TEST_F(Safetensors, TypesWithoutAReaderAreListed) {
  const TensorFile file = file_of("F8_E4M3", std::vector<std::uint8_t>{0, 1});
  ASSERT_EQ(file.tensors().size(), 1);
  EXPECT_EQ(file.tensors()[0].dtype, "F8_E4M3");
  EXPECT_TRUE(file_error([&] { (void)file.read("x"); }, file.path(),
                         "tensor 'x': numbers of type F8_E4M3 cannot be read"));
}

TEST_F(Safetensors, AsksForWhatIsThere) {
  const TensorFile file = file_of("I64", std::vector<std::int64_t>{1});
  EXPECT_TRUE(file_error([&] { (void)file.read("y"); }, file.path(), "has no tensor 'y'"));
  EXPECT_TRUE(file_error([&] { (void)file.read("x"); }, file.path(),
                         "tensor 'x': expected floating-point numbers, got I64"));
}

// Larger than the window in which a mapped file is looked at, and not a multiple of it.
TEST_F(Safetensors, LargeTensors) {
  const TensorMap tensors = {{"a", Tensor::normal({3, 1'500'001}, 1)},
                             {"b", Tensor::normal({7}, 2)}};
  write_safetensors(folder_.path("x"), tensors);
  const TensorFile file = TensorFile::open(folder_.path("x"));
  EXPECT_TRUE(same_bits(file.read("a"), tensors.at("a")));
  EXPECT_TRUE(same_bits(file.read("b"), tensors.at("b")));
}

TEST_F(Safetensors, ManyThreadsReadAtOnce) {
  const TensorMap tensors = {{"a", Tensor::normal({50, 100}, 1)}, {"b", Tensor::normal({70}, 2)}};
  write_safetensors(folder_.path("x"), tensors);
  const TensorFile file = TensorFile::open(folder_.path("x"));
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

// A mapped page that is gone would end the program.
TEST_F(Safetensors, AFileThatBecomesShorterWhileItIsOpen) {
  write_safetensors(folder_.path("x"), {{"a", Tensor({5000})}, {"b", Tensor({5000})}});
  const TensorFile file = TensorFile::open(folder_.path("x"));
  std::filesystem::resize_file(folder_.path("x"), 20'200);
  EXPECT_EQ(file.read("a").size(), 5000);
  EXPECT_TRUE(file_error([&] { (void)file.read("b"); }, file.path(),
                         "tensor 'b': became shorter while it was open"));
}

// The library replaces files; it never writes into one that somebody may have open.
TEST_F(Safetensors, AFileThatIsReplacedWhileItIsOpen) {
  const TensorMap old = {{"a", Tensor::normal({1000}, 1)}};
  write_safetensors(folder_.path("x"), old);
  const TensorFile file = TensorFile::open(folder_.path("x"));
  write_safetensors(folder_.path("x"), {{"a", Tensor::normal({2}, 2)}});
  EXPECT_TRUE(same_bits(file.read("a"), old.at("a")));
}

TEST_F(Safetensors, WrittenTwiceIsTheSame) {
  const TensorMap tensors = {
      {"b\"\\\n", Tensor::normal({2, 3}, 1)}, {"a", Tensor::normal({}, 2)}, {"é", Tensor({0, 4})}};
  const Metadata metadata = {{"z", "1"}, {"a", "\x01é\"\t"}};
  write_safetensors(folder_.path("x"), tensors, metadata);
  write_safetensors(folder_.path("y"), tensors, metadata);
  EXPECT_EQ(folder_.read("x"), folder_.read("y"));
  const TensorFile file = TensorFile::open(folder_.path("x"));
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), 3);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bits(file.read(name), tensor));
}

// The very bytes that the reference implementation (0.8.0, save_file of safetensors.numpy) writes.
TEST_F(Safetensors, WrittenAsTheReferenceDoes) {
  write_safetensors(folder_.path("x"), {{"b", Tensor::from({1, 2}, {1, 2})}, {"a", Tensor({0})}},
                    {{"format", "np"}});
  EXPECT_EQ(folder_.read("x"),
            safetensors_bytes(R"({"__metadata__":{"format":"np"},)"
                              R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                              R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}    )",
                              little_endian(1.0F) + little_endian(2.0F)));
}

TEST_F(Safetensors, NamesThatCannotBeWritten) {
  const auto write = [&](const std::string& name, const Metadata& metadata = {}) {
    write_safetensors(folder_.path("x"), {{name, Tensor({1})}}, metadata);
  };
  EXPECT_THROW(write("__metadata__"), ArgumentError);
  EXPECT_THROW(write("\xFF"), ArgumentError);
  EXPECT_THROW(write("a", {{"k", "\xC0\x80"}}), ArgumentError);
  EXPECT_THROW(write("a", {{"k", std::string(100'000'000, 'x')}}), ArgumentError);
  EXPECT_TRUE(folder_.names().empty()) << "an error must leave no file";
}

}  // namespace
}  // namespace headwise
