// linear(): the same bits as a packed map, whether few rows read the kernel in place or many pack it.
#include "headwise/linear.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::same_bits;

TEST(LinearOnce, EqualsPackedForEveryNumberOfRowsAndColumns) {
  for (const std::int64_t rows : {0, 1, 2, 13, 95, 96, 97, 200}) {
    for (const std::int64_t columns : {0, 1, 15, 16, 17, 48, 160}) {
      for (const std::int64_t inputs : {0, 1, 7, 64}) {
        const std::string sizes =
            std::to_string(rows) + " × " + std::to_string(inputs) + " × " + std::to_string(columns);
        const Tensor x = Tensor::normal({rows, inputs}, 1);
        const Tensor kernel = Tensor::normal({inputs, columns}, 2);
        const Tensor bias = Tensor::normal({columns}, 3);
        const Tensor expected = PackedLinear(kernel, bias)(x);
        EXPECT_TRUE(same_bits(linear(x, kernel, bias), expected)) << sizes;
        EXPECT_TRUE(same_bits(linear(x, kernel), PackedLinear(kernel)(x))) << sizes;
        Context two(2);
        Tensor out = Tensor::full({rows, columns}, 9.0F);
        linear(x, kernel, bias, out.view(), &two);
        EXPECT_TRUE(same_bits(out, expected)) << sizes;
      }
    }
  }
}

TEST(LinearOnce, AnyStrides) {
  const Tensor x = Tensor::normal({2, 3, 5, 4, 32}, 1);
  const ConstView turned = x.view().permuted({3, 1, 0, 2, 4});
  const Tensor wide = Tensor::normal({32, 64}, 2);
  const Tensor high = Tensor::normal({48, 32}, 3);
  const Tensor column = Tensor::normal({48, 2}, 4);
  const ConstView bias = column.view().at(1, 1);
  for (const ConstView& kernel : {wide.view().sliced(1, 8, 56), high.view().permuted({1, 0})}) {
    const Tensor expected =
        PackedLinear(Tensor::copy_of(kernel), Tensor::copy_of(bias))(Tensor::copy_of(turned));
    EXPECT_TRUE(same_bits(linear(turned, kernel, bias), expected));
    Tensor out({5, 2, 3, 4, 48});
    linear(turned, kernel, bias, out.view().permuted({3, 2, 1, 0, 4}));
    EXPECT_TRUE(same_bits(Tensor::copy_of(out.view().permuted({3, 2, 1, 0, 4})), expected));
  }
}

TEST(LinearOnce, OutputMustHaveItsShapeAndMemoryOfItsOwn) {
  Tensor square = Tensor::normal({16, 16}, 1);
  const Tensor kernel = Tensor::normal({16, 16}, 2);
  Tensor other({16, 15});
  EXPECT_THROW(linear(square, kernel, {}, other.view()), ArgumentError);
  EXPECT_THROW(linear(square, kernel, {}, square.view()), ArgumentError);
  EXPECT_THROW(linear(kernel, square, {}, square.view()), ArgumentError);
  Tensor row({16});
  EXPECT_THROW(linear(square, kernel, {}, row.view().broadcast(0, 16)), ArgumentError);
}

}  // namespace
}  // namespace headwise
