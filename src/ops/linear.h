// Linear maps over rows of numbers, on all threads: Y = X·W + b and its gradients.
//
// Work is cut into blocks of rows and columns by shape alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "headwise/linear.h"
#include "headwise/tensor.h"
#include "kernels/gemm/gemm.h"
#include "runtime/context_state.h"

namespace headwise::ops {

// outer × inner rows of `features` numbers, e.g. (B,T,D) with any strides.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t outer = 1;
  std::int64_t inner = 0;
  std::int64_t features = 0;
  std::int64_t outer_stride = 0;
  std::int64_t inner_stride = 0;
  std::int64_t feature_stride = 1;

  // NOLINTNEXTLINE(google-explicit-constructor): reading what may be written is fine
  operator Rows<const T>() const {
    return {data, outer, inner, features, outer_stride, inner_stride, feature_stride};
  }
  [[nodiscard]] std::int64_t count() const { return outer * inner; }
  [[nodiscard]] kernels::StridedMatrix<T> block(std::int64_t o, std::int64_t i) const {
    return {data + o * outer_stride + i * inner_stride, inner_stride, feature_stride};
  }
  // The same rows as one long block, where memory allows.
  [[nodiscard]] Rows collapsed() const {
    if (inner == 1) return {data, 1, outer, features, 0, outer_stride, feature_stride};
    if (outer > 1 && outer_stride != inner * inner_stride) return *this;
    return {data, 1, outer * inner, features, 0, inner_stride, feature_stride};
  }
};
using ConstRows = Rows<const float>;
using MutableRows = Rows<float>;

// Row-major rows without gaps.
template <typename T>
Rows<T> dense_rows(T* data, std::int64_t outer, std::int64_t inner, std::int64_t features) {
  return {data, outer, inner, features, inner * features, features, 1};
}
// A view of rank 1 to 3, its last axis being the features.
template <typename T>
Rows<T> rows_of(const TensorView<T>& view) {
  const int rank = view.rank();
  Rows<T> rows;
  rows.data = view.data();
  rows.outer = rank > 2 ? view.extent(0) : 1;
  rows.inner = rank > 1 ? view.extent(rank - 2) : 1;
  rows.features = view.extent(rank - 1);
  rows.outer_stride = rank > 2 ? view.stride(0) : 0;
  rows.inner_stride = rank > 1 ? view.stride(rank - 2) : 0;
  rows.feature_stride = view.stride(rank - 1);
  return rows;
}

// Throws unless the kernel is (inputs, outputs) and the bias, if there is one, (outputs).
void check_kernel(const char* function, const ConstView& kernel, const ConstView& bias);

// Throws unless `output` has this shape and memory apart from what is read meanwhile.
void check_mapped(const char* function, const MutableView& output, const Shape& shape,
                  std::initializer_list<ConstView> read);

// `input`'s shape with `outputs` in place of its last extent, which must be `inputs`.
Shape mapped_shape(const char* function, const ConstView& input, std::int64_t inputs,
                   std::int64_t outputs);

// Views of rank ≤ 3, in order, that make up one of any rank: the strides of more leading axes need
// not follow one pattern.
template <typename T>
void add_pieces(const TensorView<T>& view, std::vector<Rows<T>>& pieces) {
  if (view.rank() <= 3) {
    pieces.push_back(rows_of(view));
    return;
  }
  for (std::int64_t i = 0; i < view.extent(0); ++i) add_pieces(view.at(0, i), pieces);
}
template <typename T>
std::vector<Rows<T>> pieces_of(const TensorView<T>& view) {
  std::vector<Rows<T>> pieces;
  add_pieces(view, pieces);
  return pieces;
}

// A matrix (depth × columns) packed for products. Borrows the panels.
struct PackedMatrix {
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  const float* panels = nullptr;
  // Not packed, but row-major as it lies, whole panels wide: numbers from row to row.
  std::int64_t in_place_stride = 0;

  [[nodiscard]] bool in_place() const { return in_place_stride != 0; }
  [[nodiscard]] kernels::Panels from(std::int64_t column) const {
    if (in_place_stride == 0) return kernels::packed_panels(panels + column * depth, depth);
    return kernels::panels_in_place({panels + column, in_place_stride, 1});
  }
};
// Packs on all threads.
PackedMatrix pack(const runtime::Lease& lease, std::int64_t depth, std::int64_t columns,
                  kernels::MatrixView matrix, float* panels);

// y = x·w [+ bias], or y += x·w.
struct LinearCall {
  ConstRows x;
  PackedMatrix w;
  const float* bias = nullptr;
  MutableRows y;
  bool accumulate = false;
};
// Calls that do not depend on each other share the threads: short ones need not wait for the end of
// the one before.
void linear(const runtime::Lease& lease, std::span<const LinearCall> calls);
inline void linear(const runtime::Lease& lease, const LinearCall& call) {
  linear(lease, std::span(&call, 1));
}

// Scratch numbers per worker that linear_weight_gradient needs.
std::int64_t linear_gradient_scratch();

// Rows of x and of dy that belong together.
struct RowPair {
  ConstRows x;
  ConstRows dy;
};
// kernel_gradient = Σ xᵀ·dy over all rows of all pairs, in order, and bias_gradient = Σ dy (if not
// null). Where dy is exactly 0, what x holds does not matter: NaN for a masked key.
struct LinearGradientCall {
  std::span<const RowPair> pairs;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  float* kernel_gradient = nullptr;  // (inputs, outputs)
  float* bias_gradient = nullptr;    // (outputs)
  float* worker_scratch = nullptr;   // linear_gradient_scratch() for each worker
};
void linear_weight_gradient(const runtime::Lease& lease, const LinearGradientCall& call);

}  // namespace headwise::ops
