// One example of every kind of mask, with a second, independent statement of what it hides:
// `attends` is written out by hand here and never asks the library.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/mask.h"
#include "headwise/tensor.h"

namespace headwise::test_support {

struct HiddenCase {
  std::string name;
  Mask mask;
  std::vector<Bias> bias;
  // (sequence, query head, query, key)
  std::function<bool(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> attends;
};

struct HiddenSizes {
  std::int64_t batch = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t length = 0;  // of queries and keys alike

  // Is there any query of any head of this sequence that attends the key?
  [[nodiscard]] bool key_used(const HiddenCase& c, std::int64_t b, std::int64_t s) const {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < length; ++t) {
        if (c.attends(b, h, t, s)) return true;
      }
    }
    return false;
  }
  // Does this query attend anything in any head?
  [[nodiscard]] bool query_used(const HiddenCase& c, std::int64_t b, std::int64_t t) const {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t s = 0; s < length; ++s) {
        if (c.attends(b, h, t, s)) return true;
      }
    }
    return false;
  }
};

// A keep mask of the given axes from a predicate on (outer, query, key).
template <typename Predicate>
BoolTensor keep_by(std::int64_t outer, std::int64_t length, Predicate kept) {
  BoolTensor mask({outer, length, length});
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t s = 0; s < length; ++s) mask.view()(o, t, s) = kept(o, t, s);
    }
  }
  return mask;
}

inline std::vector<HiddenCase> hidden_cases(const HiddenSizes& n) {
  using I = std::int64_t;
  const I length = n.length;
  const I some = length * 2 / 3;  // a length that cuts through the middle
  std::vector<HiddenCase> cases;
  const auto add = [&](std::string name, Mask mask, std::function<bool(I, I, I, I)> attends,
                       std::vector<Bias> bias = {}) {
    cases.push_back({std::move(name), std::move(mask), std::move(bias), std::move(attends)});
  };

  add("valid lengths", valid_lengths({some, length - 1}),
      [=](I b, I, I, I s) { return s < (b == 0 ? some : length - 1); });
  add("a sequence without keys", valid_lengths({0, some}),
      [=](I b, I, I, I s) { return b == 1 && s < some; });
  IndexTensor by_query({n.batch, length});
  for (I b = 0; b < n.batch; ++b) {
    for (I t = 0; t < length; ++t) by_query.view()(b, t) = (t + b) % some;
  }
  add("lengths per query", valid_lengths(std::move(by_query)),
      [=](I b, I, I t, I s) { return s < (t + b) % some; });
  add("causal", causal(), [](I, I, I t, I s) { return s <= t; });
  add("causal behind the keys", causal() & query_offset(-3),
      [](I, I, I t, I s) { return s <= t - 3; });
  add("causal, bottom right", causal(Alignment::BottomRight) & valid_lengths({some, length}),
      [=](I b, I, I t, I s) { return s <= t + (b == 0 ? some - length : 0); });
  add("window", window(2, 1) & query_offset(2),
      [](I, I, I t, I s) { return s >= t && s <= t + 3; });
  add("query lengths", query_lengths({some, 1}),
      [=](I b, I, I t, I) { return t < (b == 0 ? some : 1); });
  add("keep, for all sequences and heads",
      keep(keep_by(1, length, [](I, I t, I s) { return s % 3 == 1 && t % 4 != 2; }),
           Axes::BatchQueryKey),
      [](I, I, I t, I s) { return s % 3 == 1 && t % 4 != 2; });
  add("keep, per head",
      keep(keep_by(n.heads, length, [](I h, I t, I s) { return s > 2 && (s + h + t) % 3 != 0; }),
           Axes::HeadQueryKey),
      [](I, I h, I t, I s) { return s > 2 && (s + h + t) % 3 != 0; });
  IndexTensor query_ids({length});
  IndexTensor key_ids({length});
  for (I i = 0; i < length; ++i) {
    query_ids.view()(i) = i / 4;  // every fourth segment has queries only or keys only
    key_ids.view()(i) = (i / 4) % 4 == 3 ? -1 : i / 4;
  }
  add("segments", segments(std::move(query_ids), std::move(key_ids)),
      [](I, I, I t, I s) { return t / 4 == s / 4 && (s / 4) % 4 != 3; });
  Tensor hiding({1, length});
  for (I s = 0; s < length; ++s) {
    hiding.view()(0, s) = s % 5 == 2 ? -std::numeric_limits<float>::infinity() : 0.25F;
  }
  add("bias of minus infinity", {}, [](I, I, I, I s) { return s % 5 != 2; },
      {Bias(std::move(hiding))});
  add("everything at once",
      causal() & valid_lengths({some, length}) & window(7, 5) & query_lengths({length, some}) &
          keep(keep_by(1, length, [](I, I, I s) { return s % 4 != 0; }), Axes::BatchQueryKey),
      [=](I b, I, I t, I s) {
        return s <= t && s >= t - 7 && s % 4 != 0 && s < (b == 0 ? some : length) &&
               t < (b == 0 ? length : some);
      },
      {Bias(Tensor::normal({length, length}, 77))});
  return cases;
}

// What is planted, and what the run to compare with holds in the same places.
inline std::vector<float> poisons() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity};
}

}  // namespace headwise::test_support
