// What a call should return, in the shapes and order in which the library returns it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "support/oracle.h"

namespace headwise::oracle {

template <typename Scalar>
using Named = std::map<std::string, Array<Scalar>>;

// How rows (all sequences one after the other) are cut into the result's axes: a padded batch has
// (B, …, T), one sequence or a packed batch (…, rows).
struct Form {
  bool batched = false;
  std::int64_t batch = 1;  // 1 unless batched
  std::int64_t rows = 0;   // of queries, in one entry of the batch
  std::int64_t key_rows = 0;
  Layout layout = Layout::SequenceFirst;
};

Form head_form(const ConstView& query, const ConstView& key, const AttentionOptions& options);
Form layer_form(const ConstView& query, const ConstView& key);

enum class RowsOf { Queries, Keys };

// (rows, H, d) to the layout of the call's head tensors.
template <typename Scalar>
Array<Scalar> in_layout(const Array<Scalar>& heads, const Form& form,
                        RowsOf which = RowsOf::Queries);
// (rows, features) to (B, T, features), or left as it is.
template <typename Scalar>
Array<Scalar> in_batch(const Array<Scalar>& features, const Form& form,
                       RowsOf which = RowsOf::Queries);

// Under the names of AttentionResult's members, those that are asked for, without the output:
// "log_sum_exp", "weights", "top.values", "statistics.entropy", …
template <typename Scalar>
Named<Scalar> attention_results(const AttentionValues<Scalar>& values, const Form& form,
                                const WeightsRequest& request);

// The library's tensors under the same names; no output if it went to the caller's buffer.
std::map<std::string, const Tensor*> result_tensors(const AttentionResult& result,
                                                    const WeightsRequest& request);

// "" if top-k indices name attended keys, all different, whose weights (B,Hq,T,S) are those of
// `top` to within `tolerance`, and −1 beyond the attended ones; else what is wrong.
std::string check_top_indices(const TopWeights& top, const AttentionValues<double>& values,
                              const Form& form, double tolerance);

}  // namespace headwise::oracle
