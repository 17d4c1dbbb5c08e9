// The biases of a call, checked against its shapes, tile by tile.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/mask.h"
#include "masks/dense_array.h"
#include "masks/resolved_mask.h"
#include "masks/score_shape.h"

namespace headwise::masks {

class ResolvedBias {
 public:
  // Throws ArgumentError on behalf of `function`. Borrows the arrays.
  ResolvedBias(std::string_view function, const std::vector<Bias>& biases, ScoreShape shape);

  [[nodiscard]] bool none() const { return parts_.empty(); }

  // Writes the sum of all biases to `sum`. Where one is −∞ the place is masked instead: 0 in `sum`
  // and in `keep`, which is filled if the tile was Full. Both row-major with `stride`. Returns the
  // tile's kind.
  TileKind tile(const TileRange& range, TileKind kind, float* sum, std::uint8_t* keep,
                std::int64_t stride) const;

 private:
  ScoreShape shape_;
  std::vector<DenseArray<const float>> parts_;
};

}  // namespace headwise::masks
