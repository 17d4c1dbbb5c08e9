// One sequence of a batch, cut out of it with everything that concerns it: what it gives alone it
// must give, bit for bit, in company.
#pragma once

#include <cstdint>

#include "support/random_case.h"

namespace headwise::test_support {

// Views into the batch's memory, without a batch axis. The output buffer is the library's own.
struct OpAlone {
  AttentionInputs inputs;
  ConstView output_gradient;
  AttentionOptions options;
};
struct LayerAlone {
  AttentionInputs inputs;
  ConstView output_gradient;
  ForwardOptions options;
};

OpAlone alone(const OpCase& batch, std::int64_t sequence);
LayerAlone alone(const LayerCase& batch, std::int64_t sequence);

// How many sequences there are, and which rows of the batch's tensors are those of one.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
std::int64_t sequence_count(const OpCase& batch);
std::int64_t sequence_count(const LayerCase& batch);

// What one sequence has of a result of the whole batch. `rows` is the query's or the key's axis in
// a packed batch, counted without the batch axis; a padded batch is cut along its first axis.
Tensor part_of(const Tensor& tensor, const std::optional<PackedLengths>& packed,
               std::int64_t sequence, int rows, bool of_keys);

}  // namespace headwise::test_support
