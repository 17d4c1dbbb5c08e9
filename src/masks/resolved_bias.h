// The biases of a call, checked against its shapes, tile by tile.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/mask.h"
#include "masks/dense_array.h"
#include "masks/score_shape.h"

namespace headwise::masks {

class ResolvedBias {
 public:
  // Throws ArgumentError on behalf of `function`. Borrows the arrays.
  ResolvedBias(std::string_view function, const std::vector<Bias>& biases, const ScoreShape& shape);

  [[nodiscard]] bool none() const { return parts_.empty(); }

  // Writes the sum of all biases, row-major with `stride`. Where one is −∞ the sum is.
  void fill(const TileRange& range, float* sum, std::int64_t stride) const;
  // The only bias; fill() would copy it.
  [[nodiscard]] const DenseArray<const float>* only() const {
    return parts_.size() == 1 ? parts_.data() : nullptr;
  }

 private:
  const ScoreShape& shape_;
  base::SmallVector<DenseArray<const float>, 4> parts_;
};

}  // namespace headwise::masks
