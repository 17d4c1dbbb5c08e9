// Attention of one sequence as a textbook has it, in any precision: T×S scores, loops in order.
// The oracle of tests/support asks for every entry who may attend whom, which these sizes cannot
// afford; here a row attends a range of keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace headwise::accuracy {

struct HeadSizes {
  std::int64_t queries = 0, keys = 0, heads = 0, kv_heads = 0, key_dim = 0, value_dim = 0;
};

// Of a row; the same for all heads.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

template <typename Scalar>
struct PlainAttention {
  // (T,Hq,dk), (S,Hkv,dk), (S,Hkv,dv), (T,Hq,dv); bias (Hq,T,S) or empty
  std::vector<Scalar> query, key, value, output_gradient, bias;
  std::vector<KeyRange> ranges;  // (T)

  std::vector<Scalar> output, query_gradient, key_gradient, value_gradient;

  void run(const HeadSizes& n) {
    output.assign(output_gradient.size(), Scalar(0));
    query_gradient.assign(query.size(), Scalar(0));
    key_gradient.assign(key.size(), Scalar(0));
    value_gradient.assign(value.size(), Scalar(0));
    weights_.resize(static_cast<std::size_t>(n.keys));
    weight_gradients_.resize(static_cast<std::size_t>(n.keys));
    for (std::int64_t h = 0; h < n.heads; ++h) {
      for (std::int64_t t = 0; t < n.queries; ++t) row(n, h, t);
    }
  }

 private:
  static Scalar dot(const Scalar* a, const Scalar* b, std::int64_t n) {
    Scalar sum(0);
    for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  static void add(Scalar factor, const Scalar* x, Scalar* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
  }

  void row(const HeadSizes& n, std::int64_t h, std::int64_t t) {
    const Scalar scale = Scalar(1) / std::sqrt(static_cast<Scalar>(n.key_dim));
    const std::int64_t kv_head = h / (n.heads / n.kv_heads);
    const KeyRange keys = ranges[static_cast<std::size_t>(t)];
    const std::int64_t dk = n.key_dim;
    const std::int64_t dv = n.value_dim;
    const Scalar* q = query.data() + (t * n.heads + h) * dk;
    const Scalar* d_out = output_gradient.data() + (t * n.heads + h) * dv;
    const auto k = [&](std::int64_t s) { return (s * n.kv_heads + kv_head) * dk; };
    const auto v = [&](std::int64_t s) { return (s * n.kv_heads + kv_head) * dv; };
    Scalar* p = weights_.data();
    Scalar* dp = weight_gradients_.data();

    for (std::int64_t s = keys.begin; s < keys.end; ++s) {
      p[s] = scale * dot(q, key.data() + k(s), dk);
      if (!bias.empty()) p[s] += bias[static_cast<std::size_t>((h * n.queries + t) * n.keys + s)];
    }
    const Scalar largest = *std::max_element(p + keys.begin, p + keys.end);
    Scalar sum(0);
    for (std::int64_t s = keys.begin; s < keys.end; ++s) sum += p[s] = std::exp(p[s] - largest);
    Scalar mean(0);
    for (std::int64_t s = keys.begin; s < keys.end; ++s) {
      p[s] /= sum;
      add(p[s], value.data() + v(s), output.data() + (t * n.heads + h) * dv, dv);
      add(p[s], d_out, value_gradient.data() + v(s), dv);
      dp[s] = dot(d_out, value.data() + v(s), dv);
      mean += p[s] * dp[s];
    }
    for (std::int64_t s = keys.begin; s < keys.end; ++s) {
      const Scalar ds = p[s] * (dp[s] - mean) * scale;
      add(ds, key.data() + k(s), query_gradient.data() + (t * n.heads + h) * dk, dk);
      add(ds, q, key_gradient.data() + k(s), dk);
    }
  }

  std::vector<Scalar> weights_, weight_gradients_;  // of the row
};

}  // namespace headwise::accuracy
