// npy arrays: all versions, types and orders that numpy writes, from files and streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
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
using test_support::npy_bytes;
using test_support::refused;
using test_support::same_bits;

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

template <typename T>
std::string data_of(const std::vector<T>& values, bool big_endian = false) {
  std::string data;
  for (const T value : values) {
    std::string bytes = little_endian(value);
    if (big_endian) std::reverse(bytes.begin(), bytes.end());
    data += bytes;
  }
  return data;
}

class Npy : public ::testing::Test {
 protected:
  // The same array from a file and from a stream: they must agree.
  AnyTensor read(const std::string& bytes) {
    const TensorFile file = TensorFile::open(folder_.write("x.npy", bytes));
    EXPECT_EQ(file.format(), "npy");
    EXPECT_EQ(file.tensors().size(), 1);
    EXPECT_EQ(file.tensors()[0].name, "");
    std::istringstream stream(bytes);
    const AnyTensor streamed = read_npy(stream, "<stdin>");
    AnyTensor tensor = file.read_any("");
    std::visit(
        [&](const auto& a) {
          EXPECT_TRUE(same_bits(a, std::get<std::decay_t<decltype(a)>>(streamed)));
          EXPECT_EQ(file.tensors()[0].shape, a.shape());
        },
        tensor);
    return tensor;
  }
  ::testing::AssertionResult refused_bytes(const std::string& bytes, const std::string& mentions) {
    std::istringstream stream(bytes);
    const auto from_stream = file_error([&] { (void)read_npy(stream, "<stdin>"); }, "<stdin>", "");
    if (!from_stream) return from_stream;
    return refused(folder_.write("x.npy", bytes), mentions);
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(Npy, Versions) {
  const auto expected = Tensor::from({2}, {1, 2});
  const std::string data = data_of<float>({1, 2});
  for (const int version : {1, 2, 3}) {
    EXPECT_TRUE(same_bits(
        std::get<Tensor>(read(npy_bytes(dictionary("<f4", "(2,)"), data, version))), expected));
  }
}

TEST_F(Npy, FormsOfTheDictionary) {
  const auto expected = Tensor::from({2, 1}, {1, 2});
  const std::string data = data_of<float>({1, 2});
  for (const char* text :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}",
        "{'shape':(2,1,),'fortran_order':False,'descr':'<f4'}",
        "  {\"descr\": \"=f4\", \"fortran_order\": False, \"shape\": (2L, 1L)} \n\t  "}) {
    EXPECT_TRUE(same_bits(std::get<Tensor>(read(npy_bytes(text, data))), expected)) << text;
  }
  EXPECT_EQ(std::get<Tensor>(read(npy_bytes(dictionary("<f4", "()"), data_of<float>({7})))).shape(),
            Shape{});
  EXPECT_EQ(std::get<Tensor>(read(npy_bytes(dictionary("<f4", "(3, 0)")))).shape(), (Shape{3, 0}));
}

template <typename T>
void expect_integers(const AnyTensor& tensor, const std::vector<T>& values) {
  const auto read = std::get<IndexTensor>(tensor).values();
  ASSERT_EQ(read.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(read[i], static_cast<std::int64_t>(values[i]));
  }
}

TEST_F(Npy, BothByteOrders) {
  for (const bool big : {false, true}) {
    const std::string order = big ? ">" : "<";
    const auto array = [&](const std::string& type, const auto& values) {
      return read(npy_bytes(dictionary(order + type, "(2,)"), data_of(values, big)));
    };
    const auto expected = Tensor::from({2}, {1.5F, -2.25F});
    EXPECT_TRUE(same_bits(std::get<Tensor>(array("f2", std::vector<std::uint16_t>{0x3E00, 0xC080})),
                          expected));
    EXPECT_TRUE(
        same_bits(std::get<Tensor>(array("f4", std::vector<float>{1.5F, -2.25F})), expected));
    EXPECT_TRUE(
        same_bits(std::get<Tensor>(array("f8", std::vector<double>{1.5, -2.25})), expected));
    expect_integers(array("i2", std::vector<std::int16_t>{-2, 300}), std::vector<int>{-2, 300});
    expect_integers(array("i4", std::vector<std::int32_t>{-2, 70000}), std::vector<int>{-2, 70000});
    expect_integers(array("i8", std::vector<std::int64_t>{-2, 1LL << 40}),
                    std::vector<std::int64_t>{-2, 1LL << 40});
    expect_integers(array("u2", std::vector<std::uint16_t>{2, 65535}), std::vector<int>{2, 65535});
    expect_integers(array("u4", std::vector<std::uint32_t>{2, 1U << 31U}),
                    std::vector<std::int64_t>{2, 1LL << 31});
    expect_integers(array("u8", std::vector<std::uint64_t>{2, 1ULL << 62U}),
                    std::vector<std::int64_t>{2, 1LL << 62});
  }
}

TEST_F(Npy, SingleBytes) {
  expect_integers(read(npy_bytes(dictionary("|i1", "(2,)"), "\xFF\x05")), std::vector<int>{-1, 5});
  expect_integers(read(npy_bytes(dictionary("|u1", "(2,)"), "\xFF\x05")), std::vector<int>{255, 5});
  EXPECT_TRUE(same_bits(
      std::get<BoolTensor>(read(npy_bytes(dictionary("|b1", "(2,)"), std::string("\0\1", 2)))),
      BoolTensor::from({2}, {false, true})));
}

TEST_F(Npy, ColumnMajorOrder) {
  std::vector<float> numbers;
  for (int i = 0; i < 24; ++i) numbers.push_back(static_cast<float>(i));
  const auto tensor =
      std::get<Tensor>(read(npy_bytes(dictionary("<f4", "(2, 3, 4)", "True"), data_of(numbers))));
  ASSERT_EQ(tensor.shape(), (Shape{2, 3, 4}));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(tensor.view()(i, j, k), static_cast<float>(i + 2 * j + 6 * k));
      }
    }
  }
  EXPECT_TRUE(same_bits(std::get<BoolTensor>(read(npy_bytes(dictionary("|b1", "(2, 2)", "True"),
                                                            std::string("\0\1\0\0", 4)))),
                        BoolTensor::from({2, 2}, {false, false, true, false})));
  EXPECT_EQ(std::get<Tensor>(read(npy_bytes(dictionary("<f4", "(0, 3)", "True")))).shape(),
            (Shape{0, 3}));
}

// More than one chunk of a stream, and not a multiple of it.
TEST_F(Npy, LargeArrays) {
  const Tensor tensor = Tensor::normal({3, 1'000'001}, 5);
  std::ostringstream written;
  write_npy(written, tensor);
  EXPECT_TRUE(same_bits(std::get<Tensor>(read(written.str())), tensor));
}

// A stream may go on with something else, as numpy allows.
TEST_F(Npy, SeveralArraysInOneStream) {
  std::stringstream stream;
  const Tensor a = Tensor::normal({3}, 1);
  const Tensor b = Tensor::normal({2, 2}, 2);
  write_npy(stream, a);
  write_npy(stream, b);
  EXPECT_TRUE(same_bits(std::get<Tensor>(read_npy(stream, "pipe")), a));
  EXPECT_TRUE(same_bits(std::get<Tensor>(read_npy(stream, "pipe")), b));
  EXPECT_TRUE(file_error([&] { (void)read_npy(stream, "pipe"); }, "pipe", "ends within"));
}

TEST_F(Npy, WritesViewsOfAnyStrides) {
  const Tensor tensor = Tensor::normal({3, 4}, 1);
  write_npy(folder_.path("x"), tensor.view().permuted({1, 0}));
  EXPECT_TRUE(same_bits(TensorFile::open(folder_.path("x")).read(""),
                        Tensor::copy_of(tensor.view().permuted({1, 0}))));
  write_npy(folder_.path("x"), tensor.view().at(0, 1).broadcast(0, 2));
  EXPECT_EQ(TensorFile::open(folder_.path("x")).tensors()[0].shape, (Shape{2, 4}));
  EXPECT_THROW(write_npy(folder_.path("x"), ConstView()), ArgumentError);
}

// The very bytes that numpy 2.4 writes.
TEST_F(Npy, WrittenAsNumpyDoes) {
  const auto header = [](const std::string& shape, std::size_t spaces) {
    return npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }" +
                     std::string(spaces, ' ') + "\n");
  };
  std::ostringstream vector;
  write_npy(vector, Tensor({3}));
  EXPECT_EQ(vector.str(), header("(3,)", 60) + std::string(12, '\0'));
  std::ostringstream scalar;
  write_npy(scalar, Tensor(Shape{}));
  EXPECT_EQ(scalar.str(), header("()", 62) + std::string(4, '\0'));
  std::ostringstream matrix;
  write_npy(matrix, Tensor({0, 12345}));
  EXPECT_EQ(matrix.str(), header("(0, 12345)", 54));
}

TEST_F(Npy, HostileHeaders) {
  const std::string sound = dictionary("<f4", "(1,)");
  const std::string one(4, '\0');
  EXPECT_TRUE(refused_bytes("\x93NUMPY", "ends within the npy header"));
  EXPECT_TRUE(refused_bytes(npy_bytes(sound, one, 9), "npy version 9"));
  EXPECT_TRUE(refused_bytes(npy_bytes(sound, one, 0), "npy version 0"));
  EXPECT_TRUE(refused_bytes(npy_bytes(sound, "", 1, 1000), "ends within the npy header"));
  EXPECT_TRUE(refused_bytes(npy_bytes(sound, one, 2, 0xFFFFFFFFU), "claims 4294967295 bytes"));
  EXPECT_TRUE(refused_bytes(npy_bytes(""), "cannot be understood at its character 0"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': '<f4'"), "cannot be understood"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': \"<f4'}"), "cannot be understood"));
  EXPECT_TRUE(refused_bytes(npy_bytes(sound + "x", one), "cannot be understood"));
  EXPECT_TRUE(refused_bytes(npy_bytes("__import__('os').abort()"), "cannot be understood"));
}

TEST_F(Npy, HostileKeys) {
  const std::string one(4, '\0');
  EXPECT_TRUE(refused_bytes(npy_bytes("{}"), "no descr"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': '<f4', 'shape': (1,)}", one), "no fortran_order"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': '<f4', 'fortran_order': True}"), "no shape"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'fortran_order': True, 'shape': (1,)}", one), "no descr"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': '<f4', 'descr': '<f4'}"), "descr twice"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'x': 1}"), "unknown key 'x'"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': 4}"), "cannot be understood"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'fortran_order': 1}"), "cannot be understood"));
}

TEST_F(Npy, HostileTypes) {
  const auto typed = [](const std::string& descr) {
    return npy_bytes(dictionary(descr, "(1,)"), "12345678");
  };
  EXPECT_TRUE(refused_bytes(typed(""), "empty descr"));
  EXPECT_TRUE(refused_bytes(typed("f4"), "unknown descr 'f4'"));
  EXPECT_TRUE(refused_bytes(typed("<"), "unknown descr '<'"));
  EXPECT_TRUE(refused_bytes(typed("|O"), "Python objects, which are never unpickled"));
  EXPECT_TRUE(refused_bytes(typed("<U2"), "texts"));
  EXPECT_TRUE(refused_bytes(typed("|S8"), "texts"));
  EXPECT_TRUE(refused_bytes(typed("<c8"), "complex"));
  EXPECT_TRUE(refused_bytes(typed("|V2"), "bfloat16"));
  EXPECT_TRUE(refused_bytes(typed("<f16"), "'<f16' cannot be read"));
  EXPECT_TRUE(refused_bytes(typed("<M8[ns]"), "'<M8[ns]' cannot be read"));
  EXPECT_TRUE(refused_bytes(typed("|f4"), "'|f4' cannot be read"));
  EXPECT_TRUE(refused_bytes(typed("<f3"), "'<f3' cannot be read"));
  EXPECT_TRUE(refused_bytes(npy_bytes("{'descr': [('a', '<f4'), ('b', [('c]', 'O')])], "
                                      "'fortran_order': False, 'shape': (1,)}"),
                            "records"));
}

TEST_F(Npy, HostileShapes) {
  const auto shaped = [](const std::string& shape) {
    return npy_bytes(dictionary("<f4", shape), std::string(4, '\0'));
  };
  EXPECT_TRUE(refused_bytes(shaped("(1073741824,)"), "4294967296 bytes, but 4 follow"));
  EXPECT_TRUE(refused_bytes(shaped("(2,)"), "8 bytes, but 4 follow"));
  EXPECT_TRUE(refused(folder_.write("x.npy", shaped("(0,)")), "0 bytes, but 4 follow"));
  EXPECT_TRUE(refused_bytes(shaped("(-1,)"), "negative"));
  EXPECT_TRUE(refused_bytes(shaped("(4294967296, 4294967296)"), "more elements"));
  EXPECT_TRUE(refused_bytes(shaped("(4611686018427387904,)"), "more bytes"));
  EXPECT_TRUE(refused_bytes(shaped("(99999999999999999999,)"), "more than 64 bits"));
  EXPECT_TRUE(refused_bytes(shaped("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "more than 8 dimensions"));
  for (const char* shape :
       {"(1)", "1", "[1]", "(1,", "(,)", "(1 1)", "(1.0,)", "('1',)", "(1,,)"}) {
    EXPECT_TRUE(refused_bytes(shaped(shape), "cannot be understood")) << shape;
  }
}

TEST_F(Npy, TruncatedFile) {
  const std::string whole = npy_bytes(dictionary("<f4", "(2,)"), std::string(8, '\1'));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(refused_bytes(whole.substr(0, size), "")) << size << " bytes";
  }
}

}  // namespace
}  // namespace headwise
