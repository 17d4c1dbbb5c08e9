// Rows that call attention() or attention_backward() on random heads of one shape.
#pragma once

#include <cstdint>
#include <functional>

#include "case.h"
#include "headwise/attention.h"

namespace headwise::bench {

struct HeadShape {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t size = 64;  // of a head: dk = dv
  Layout layout = Layout::HeadsFirst;

  [[nodiscard]] double all_pairs() const {
    return static_cast<double>(batch * heads) * static_cast<double>(queries * keys);
  }
  // Q, K, V and the output.
  [[nodiscard]] double bytes() const;
  [[nodiscard]] double key_value_bytes() const;
  [[nodiscard]] std::string to_string() const;  // "32 × 8 heads × 128 × 64"
};

// As many queries as keys, as many kv heads as heads.
HeadShape self_attention(std::int64_t batch, std::int64_t heads, std::int64_t length,
                         std::int64_t size);

// Pairs of one sequence and head under a causal mask, and under window(left, 0) with it.
double causal_pairs(std::int64_t length);
double window_pairs(std::int64_t length, std::int64_t left);

double forward_flops(double pairs, std::int64_t size);   // 2·(dk + dv) a pair
double backward_flops(double pairs, std::int64_t size);  // 2·(3·dk + 2·dv)

// Options are made when the row is prepared: masks may be large.
using MakeOptions = std::function<AttentionOptions()>;

// Fills flops, bytes, shape and prepare; pairs < 0: all of them.
Case forward_row(Case row, const HeadShape& shape, double pairs = -1.0,
                 const MakeOptions& options = {});
Case backward_row(Case row, const HeadShape& shape, double pairs = -1.0,
                  const MakeOptions& options = {});

}  // namespace headwise::bench
