// How alike the products of the heads of one layer are.
#pragma once

#include <cstdint>

#include "analyze/spectra_svd.h"
#include "analyze/spectra_tasks.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise::analyze {

// The products of all heads, each divided by its Frobenius norm, as pairs of factors in float32:
// product h is Σ_i left[h, i]ᵀ·right[h, i]. From the SVD, each factor taking √σ: so balanced, a
// factor cannot be large where the other one is small, and float32 does for both.
class UnitProducts {
 public:
  UnitProducts(std::int64_t heads, std::int64_t terms, std::int64_t rows, std::int64_t columns)
      : left_({heads, terms, rows}), right_({heads, terms, columns}) {}

  // Different heads may be set at the same time. A head that is not set, or of zeros, is 0.
  void set(std::int64_t head, const ProductSvd& svd);

  // (H, H): the inner products ⟨P_h, P_g⟩F = Σ_ij (left_h·left_gᵀ)_ij · (right_h·right_gᵀ)_ij, in
  // O((rows + columns)·terms²) for each pair. One step of progress for each head.
  [[nodiscard]] Tensor similarity(Context& context, Progress& progress) const;

 private:
  Tensor left_;   // (H, terms, rows)
  Tensor right_;  // (H, terms, columns)
};

}  // namespace headwise::analyze
