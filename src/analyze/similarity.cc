#include "analyze/similarity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "headwise/linear.h"
#include "headwise/spectra.h"

namespace headwise {

namespace analyze {

namespace {

// Every row of every head, as the columns of one matrix: (length, H·terms).
ConstView as_kernel(const Tensor& rows) {
  const std::int64_t length = rows.extent(2);
  return {rows.data(), Shape{length, rows.extent(0) * rows.extent(1)}, Strides{1, length}};
}

}  // namespace

void UnitProducts::set(std::int64_t head, const ProductSvd& svd) {
  const double norm = svd.values.norm();
  if (norm == 0.0) return;
  const auto fill = [&](const MutableView& rows, const Eigen::MatrixXd& vectors) {
    for (std::int64_t i = 0; i < svd.values.size(); ++i) {
      const double share = std::sqrt(svd.values(i) / norm);
      for (std::int64_t j = 0; j < vectors.rows(); ++j) {
        rows(i, j) = static_cast<float>(share * vectors(j, i));
      }
    }
  };
  fill(left_.view().at(0, head), svd.left);
  fill(right_.view().at(0, head), svd.right);
}

Tensor UnitProducts::similarity(Context& context, Progress& progress) const {
  // By the library's own float32 product: for 32 heads of 4096×128, float64 would take three times
  // as long as all the SVDs.
  const std::int64_t heads = left_.extent(0);
  const std::int64_t terms = left_.extent(1);
  const PackedLinear left_of(as_kernel(left_));
  const PackedLinear right_of(as_kernel(right_));
  Tensor similarity({heads, heads});
  for (std::int64_t h = 0; h < heads; ++h) {
    const Tensor left = left_of(left_.view().at(0, h), &context);  // (terms, H·terms)
    const Tensor right = right_of(right_.view().at(0, h), &context);
    for (std::int64_t g = h; g < heads; ++g) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < terms; ++i) {
        const float* left_row = left.data() + (i * heads + g) * terms;
        const float* right_row = right.data() + (i * heads + g) * terms;
        for (std::int64_t j = 0; j < terms; ++j) {
          sum += static_cast<double>(left_row[j]) * static_cast<double>(right_row[j]);
        }
      }
      const float bounded = std::clamp(static_cast<float>(sum), -1.0F, 1.0F);
      similarity.view()(h, g) = bounded;
      similarity.view()(g, h) = bounded;
    }
    progress.step();
  }
  return similarity;
}

}  // namespace analyze

std::vector<HeadPair> alike_heads(const Tensor& similarity, double at_least) {
  std::vector<HeadPair> pairs;
  if (similarity.rank() != 2 || similarity.extent(0) != similarity.extent(1)) {
    base::fail("alike_heads", "similarity", "shape (H, H)", similarity.shape().to_string());
  }
  const auto matrix = similarity.view();
  for (std::int64_t h = 0; h < matrix.extent(0); ++h) {
    for (std::int64_t g = h + 1; g < matrix.extent(1); ++g) {
      const auto value = static_cast<double>(matrix(h, g));
      if (value >= at_least) pairs.push_back({h, g, value});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const HeadPair& a, const HeadPair& b) {
    return a.similarity > b.similarity;
  });
  return pairs;
}

}  // namespace headwise
