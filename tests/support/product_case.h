// Random matrix products for tests of kernels/gemm: any strides, any epilogue, spans of depth.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/gemm/gemm.h"
#include "support/dice.h"
#include "support/floats.h"
#include "support/row_spans.h"

namespace headwise::test_support {

// A matrix somewhere in a buffer, with gaps that a kernel must neither read nor write.
struct StoredMatrix {
  Floats memory;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  static StoredMatrix random(Dice& dice, std::int64_t rows, std::int64_t columns) {
    StoredMatrix result;
    switch (dice.between(0, 3)) {
      case 0:
        result = {{}, columns, 1};
        break;  // dense
      case 1:
        result = {{}, columns + dice.between(1, 9), 1};
        break;  // rows with gaps
      case 2:
        result = {{}, 1, rows + dice.between(0, 3)};
        break;  // transposed
      default:
        result = {{}, 3 * columns + 5, 3};
        break;  // gaps everywhere
    }
    result.memory = filled(rows * result.row_stride + columns * result.column_stride, kUntouched);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) result.view()(i, j) = dice.normal(1.0F);
    }
    return result;
  }

  kernels::MutableMatrix view() { return {memory.data(), row_stride, column_stride}; }
  [[nodiscard]] kernels::MatrixView view() const {
    return {memory.data(), row_stride, column_stride};
  }
};

struct ProductCase {
  std::int64_t rows, columns, depth;
  StoredMatrix a, b, c;
  std::optional<StoredMatrix> start;  // if not C itself
  Floats panels, row_before, bias, row_after;
  kernels::Product product;  // without spans

  explicit ProductCase(Dice& dice)
      : rows(random_rows(dice)),
        columns(dice.between(0, 70)),
        depth(dice.between(0, 70)),
        a(StoredMatrix::random(dice, rows, depth)),
        b(StoredMatrix::random(dice, depth, columns)),
        c(StoredMatrix::random(dice, rows, columns)),
        row_before(random_floats(dice, rows)),
        bias(random_floats(dice, columns)),
        row_after(random_floats(dice, rows)) {
    product = {.rows = rows, .columns = columns, .depth = depth, .a = view(a), .b = {}, .c = {}};
    product.zero_annihilates = dice.chance(0.3);
    if (product.zero_annihilates) hide_spoilt_terms(dice);
    pack(dice);
    product.c = c.view();
    if (dice.chance(0.3)) {
      product.start = view(c);
    } else if (dice.chance(0.4)) {
      start = StoredMatrix::random(dice, rows, columns);
      product.start = view(*start);
    }
    if (product.start.data != nullptr && dice.chance(0.5)) product.row_before = row_before.data();
    if (dice.chance(0.4)) product.bias = bias.data();
    if (dice.chance(0.4)) product.row_after = row_after.data();
  }
  ProductCase(const ProductCase&) = delete;  // `product` points into this
  ProductCase& operator=(const ProductCase&) = delete;

 private:
  static kernels::MatrixView view(const StoredMatrix& matrix) { return matrix.view(); }

  // Some places of the depth hold NaN or infinity on one side and zeros on the other.
  void hide_spoilt_terms(Dice& dice) {
    for (std::int64_t k = 0; k < depth; ++k) {
      if (!dice.chance(0.3)) continue;
      const float spoilt = dice.chance(0.5) ? kNaN : (dice.chance(0.5) ? kInfinity : -kInfinity);
      const bool in_a = dice.chance(0.5);
      for (std::int64_t i = 0; i < rows; ++i) {
        a.view()(i, k) = !in_a ? 0.0F : (dice.chance(0.5) ? spoilt : 1.0F);
      }
      for (std::int64_t j = 0; j < columns; ++j) {
        b.view()(k, j) = in_a ? -0.0F : (dice.chance(0.5) ? spoilt : 1.0F);
      }
    }
  }
  void pack(Dice& dice) {
    if (b.column_stride == 1 && columns % kernels::kPanelWidth == 0 && dice.chance(0.5)) {
      product.b = kernels::panels_in_place(view(b));
      return;
    }
    panels = filled(kernels::packed_size(depth, columns), 0.0F);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t panel = j / kernels::kPanelWidth;
        panels[static_cast<std::size_t>((panel * depth + k) * kernels::kPanelWidth +
                                        j % kernels::kPanelWidth)] = b.view()(k, j);
      }
    }
    product.b = kernels::packed_panels(panels.data(), depth);
  }
};

// One element in double, and the sum of the magnitudes of its terms: what rounding errors are
// proportional to.
struct ExactElement {
  double value = 0.0;
  double magnitude = 0.0;
};
inline ExactElement exact_element(const ProductCase& test, const kernels::TileSpan& span,
                                  std::int64_t row, std::int64_t column) {
  ExactElement sum;
  const kernels::Product& p = test.product;
  const auto add = [&](double term) {
    sum.value += term;
    sum.magnitude += std::abs(term);
  };
  if (p.start.data != nullptr) {
    const double before = p.row_before == nullptr ? 1.0 : static_cast<double>(p.row_before[row]);
    add(static_cast<double>(p.start(row, column)) * before);
  }
  for (std::int64_t k = span.begin; k < span.end; ++k) {
    const auto x = static_cast<double>(test.a.view()(row, k));
    const auto y = static_cast<double>(test.b.view()(k, column));
    if (!p.zero_annihilates || (x != 0.0 && y != 0.0)) add(x * y);
  }
  if (p.bias != nullptr) add(static_cast<double>(p.bias[column]));
  const double after = p.row_after == nullptr ? 1.0 : static_cast<double>(p.row_after[row]);
  return {sum.value * after, sum.magnitude * std::abs(after)};
}

}  // namespace headwise::test_support
