#include <numeric>
#include <vector>

#include "attention_rows.h"

namespace headwise::bench {

namespace {

constexpr const char* kPlain = "attention forward";
constexpr const char* kVariants = "attention forward, masks and options";
constexpr const char* kOdd = "attention forward, causal, grouped and odd shapes";
constexpr const char* kBackward = "attention backward alone";

void add_plain(std::vector<Case>& cases) {
  const auto add = [&](const char* id, const char* label, const HeadShape& shape, double floor) {
    cases.push_back(
        forward_row({.id = id, .group = kPlain, .label = label, .floor = both(floor)}, shape));
  };
  add("attention-128", "S 128", self_attention(32, 8, 128, 64), 0.74);
  add("attention-197", "S 197", self_attention(32, 8, 197, 64), 0.72);
  add("attention-384", "S 384", self_attention(8, 8, 384, 64), 0.79);
  add("attention-512", "S 512", self_attention(8, 8, 512, 64), 0.79);
  HeadShape strided = self_attention(8, 8, 512, 64);
  strided.layout = Layout::SequenceFirst;
  add("attention-512-strided", "S 512, axes (B,T,H,d)", strided, 0.0);
  add("attention-1500", "S 1500", self_attention(1, 8, 1500, 64), 0.80);
  add("attention-2048", "S 2048", self_attention(1, 8, 2048, 64), 0.80);
  add("attention-2048-d128", "S 2048, d 128", self_attention(1, 8, 2048, 128), 0.83);
}

// A scattered few per cent hidden: no tile is free of them, and nearly all work is useful.
bool hidden(std::int64_t query, std::int64_t key) { return (7 * query + 13 * key) % 61 == 0; }

AttentionOptions dense_keep(std::int64_t length) {
  BoolTensor values({length, length});
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) values.view()(i, j) = !hidden(i, j);
  }
  return {.mask = keep(std::move(values))};
}

double dense_keep_pairs(std::int64_t length) {
  double kept = 0.0;
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) kept += hidden(i, j) ? 0.0 : 1.0;
  }
  return kept;
}

void add_variants(std::vector<Case>& cases) {
  const HeadShape shape = self_attention(8, 8, 512, 64);
  const double heads = 64.0;  // of all sequences
  const auto row = [](const char* id, const char* label, double least) {
    return Case{.id = id,
                .group = kVariants,
                .label = label,
                .against = {"variant-none", "the plain row", least}};
  };
  cases.push_back(forward_row({.id = "variant-none",
                               .group = kVariants,
                               .label = "none: for comparison",
                               .in_picture = false},
                              shape));
  cases.push_back(forward_row(row("variant-keep", "dense keep mask (T,S)", 0.90), shape,
                              heads * dense_keep_pairs(512), [] { return dense_keep(512); }));
  cases.push_back(forward_row(row("variant-bias", "additive bias (H,T,S)", 0.85), shape, -1.0, [] {
    return AttentionOptions{
        .bias = {Bias(Tensor::uniform({8, 512, 512}, 5, -1.0F, 1.0F), Axes::HeadQueryKey)}};
  }));
  cases.push_back(forward_row(row("variant-dropout", "dropout 0.1", 0.75), shape, -1.0, [] {
    return AttentionOptions{.dropout = {.probability = 0.1F, .seed = 7}};
  }));
  const std::vector<std::int64_t> lengths = {512, 460, 400, 333, 290, 200, 120, 64};
  const auto keys = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), 0L));
  cases.push_back(
      forward_row(row("variant-lengths", "valid lengths 64 … 512", 0.0), shape, 8.0 * 512.0 * keys,
                  [lengths] { return AttentionOptions{.mask = valid_lengths(lengths)}; }));
  cases.push_back(forward_row(row("variant-causal", "causal", 0.0), shape,
                              heads * causal_pairs(512),
                              [] { return AttentionOptions{.mask = causal()}; }));
  cases.push_back(forward_row(row("variant-window", "causal window of 256", 0.0), shape,
                              heads * window_pairs(512, 255),
                              [] { return AttentionOptions{.mask = window(255, 0)}; }));

  PackedLengths packed{.query = {0}, .key = {}};
  double pairs = 0.0;
  for (const std::int64_t length : lengths) {
    packed.query.push_back(packed.query.back() + length);
    pairs += 8.0 * static_cast<double>(length * length);
  }
  Case ragged = row("variant-ragged", "ragged, packed 64 … 512", 0.0);
  ragged.shape = "8 sequences, 8 heads, d 64";
  cases.push_back(forward_row(ragged, self_attention(1, 8, packed.query.back(), 64), pairs,
                              [packed] { return AttentionOptions{.packed = packed}; }));
}

void add_odd(std::vector<Case>& cases) {
  const auto add_causal = [&](const char* id, const char* label, const HeadShape& s, double floor) {
    const double pairs = static_cast<double>(s.batch * s.heads) * causal_pairs(s.keys);
    cases.push_back(forward_row({.id = id, .group = kOdd, .label = label, .floor = both(floor)}, s,
                                pairs, [] { return AttentionOptions{.mask = causal()}; }));
  };
  add_causal("causal-1024", "causal, GPT-2", self_attention(4, 12, 1024, 64), 0.74);
  HeadShape grouped = self_attention(1, 32, 2048, 128);
  grouped.kv_heads = 8;
  add_causal("causal-grouped", "causal, grouped heads, Llama", grouped, 0.76);

  cases.push_back(forward_row({.id = "window-256", .group = kOdd, .label = "window 256, causal"},
                              self_attention(1, 8, 4096, 64), 8.0 * window_pairs(4096, 255),
                              [] { return AttentionOptions{.mask = window(255, 0)}; }));
  HeadShape cross = self_attention(8, 12, 512, 64);
  cross.queries = 64;
  cases.push_back(forward_row(
      {.id = "t5-cross", .group = kOdd, .label = "T5 cross with bias"}, cross, -1.0, [] {
        return AttentionOptions{
            .bias = {Bias(Tensor::uniform({12, 64, 512}, 5, -1.0F, 1.0F), Axes::HeadQueryKey)}};
      }));
  const auto add = [&](const char* id, const char* label, const HeadShape& shape) {
    cases.push_back(forward_row({.id = id, .group = kOdd, .label = label}, shape));
  };
  add("odd-1023", "S 1023", self_attention(2, 8, 1023, 64));
  add("odd-d40", "d 40", self_attention(8, 8, 512, 40));
  add("odd-d80", "d 80", self_attention(8, 8, 512, 80));
  add("odd-d96", "d 96", self_attention(8, 8, 512, 96));
}

void add_backward(std::vector<Case>& cases) {
  const HeadShape shape = self_attention(8, 8, 512, 64);
  cases.push_back(backward_row(
      {.id = "backward-512", .group = kBackward, .label = "S 512", .floor = both(0.78)}, shape));
  cases.push_back(backward_row(
      {.id = "backward-512-causal", .group = kBackward, .label = "S 512, causal"}, shape,
      64.0 * causal_pairs(512), [] { return AttentionOptions{.mask = causal()}; }));
  cases.push_back(backward_row({.id = "backward-2048", .group = kBackward, .label = "S 2048"},
                               self_attention(1, 8, 2048, 64)));
}

}  // namespace

void add_attention_cases(std::vector<Case>& cases) {
  add_plain(cases);
  add_variants(cases);
  add_odd(cases);
  add_backward(cases);
}

}  // namespace headwise::bench
