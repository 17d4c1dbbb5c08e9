// Runs a call forward and backward, and compares all that it gave, bit for bit.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/random_case.h"

namespace headwise::test_support {

// Every tensor of a run under its name: "output", "query gradient", "query/kernel gradient", …
using Results = std::map<std::string, Tensor>;

Results run_op(const AttentionInputs& inputs, const ConstView& output_gradient,
               const AttentionOptions& options);
Results run_layer(const MultiHeadAttention& layer, const AttentionInputs& inputs,
                  const ConstView& output_gradient, const ForwardOptions& options);

// One for each thread count and target, alive until the end: starting threads costs more than a case.
Context& shared_context(int threads, std::string_view target);
inline Context& shared_context(int threads) { return shared_context(threads, default_target()); }

// Fails the running property unless both are the same: shapes, and bits; but any NaN equals any
// other, because which of two NaNs survives an operation is up to the CPU.
void require_same(const Tensor& a, const Tensor& b, const std::string& what);
void require_same(const Results& a, const Results& b, const std::string& what);
// Those that both have.
void require_same_where_both(const Results& a, const Results& b, const std::string& what);

}  // namespace headwise::test_support
