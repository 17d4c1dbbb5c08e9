// The steps between the products of attention, for one CPU target. Included once per target.
#include "kernels/attention/tile.h"

#if defined(HEADWISE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TILE_INL_H_
#undef HEADWISE_TILE_INL_H_
#else
#define HEADWISE_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include <hwy/highway.h>

#include "kernels/gemm/gemm-inl.h"
#include "kernels/math/log_sum_exp.h"
#include "kernels/math/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls visit(row, begin, end) for every row, with its keys in whole panels.
template <typename Visit>
HWY_INLINE void for_each_row(const ScoreTile& tile, const Visit& visit) {
  const RowTiles tiles(tile.rows, kTileRows);
  for (std::int64_t t = 0; t < tiles.count; ++t) {
    const TileSpan span = span_of(tile.spans, t, tile.keys);
    const std::int64_t end = panel_count(span.end) * kPanelWidth;
    for (std::int64_t row = tiles.row(t); row < tiles.row(t + 1); ++row)
      visit(row, span.begin, end);
  }
}

// Lanes whose byte is not 0.
HWY_INLINE hn::Mask<FloatTag> kept_lanes(const std::uint8_t* keep) {
  const hn::Rebind<std::uint8_t, FloatTag> bytes;
  const IntTag ints;
  const auto wide = hn::PromoteTo(ints, hn::LoadU(bytes, keep));
  return hn::RebindMask(kTag, hn::Ne(wide, hn::Zero(ints)));
}

// How steep tanh was, for the backward pass. Others ask for no slopes.
HWY_INLINE void store_slope(FloatVector tanh, float* slope, std::int64_t key) {
  if (slope == nullptr) return;
  hn::StoreU(hn::NegMulAdd(tanh, tanh, hn::Set(kTag, 1.0F)), kTag, slope + key);
}

// The lanes from `left` on become −∞.
HWY_INLINE FloatVector hide_behind(FloatVector score, std::int64_t left) {
  if (HWY_LIKELY(left >= kLanes)) return score;
  const auto kept = hn::FirstN(kTag, static_cast<std::size_t>(std::max<std::int64_t>(left, 0)));
  return hn::IfThenElse(kept, score, hn::Set(kTag, -std::numeric_limits<float>::infinity()));
}

// Which steps a tile's scores need. Known to the compiler, so that its loop has no branches.
struct ScoreSteps {
  bool scale, softcap, bias, keep;
};

template <ScoreSteps kSteps>
void finish_rows(const ScoreTile& tile, const ScoreRule& rule, const ScoreExtras& extras,
                 float* row_max) {
  const FloatVector hidden = hn::Set(kTag, -std::numeric_limits<float>::infinity());
  const FloatVector scale = hn::Set(kTag, rule.scale);
  const FloatVector cap = hn::Set(kTag, rule.softcap);
  const FloatVector factor = kSteps.softcap ? cap : scale;
  constexpr std::int64_t kRowsAhead = 4;  // of the bias: some of it may still be far away
  for_each_row(tile, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    float* scores = tile.values + row * tile.stride;
    float* slope = extras.slope == nullptr ? nullptr : extras.slope + row * tile.stride;
    const float* bias = kSteps.bias ? extras.bias + row * extras.bias_stride : nullptr;
    const std::uint8_t* keep = kSteps.keep ? extras.keep + row * extras.keep_stride : nullptr;
    FloatVector largest[kPanelVectors];
    for (auto& lanes : largest) lanes = hidden;
    for (std::int64_t panel = begin; panel < end; panel += kPanelWidth) {
      if (kSteps.bias) __builtin_prefetch(bias + panel + kRowsAhead * extras.bias_stride);
#pragma GCC unroll 4
      for (int j = 0; j < kPanelVectors; ++j) {
        const std::int64_t key = panel + j * kLanes;
        FloatVector score = hn::LoadU(kTag, scores + key);
        if constexpr (kSteps.softcap) {
          score = tanh(hn::Div(hn::Mul(score, scale), cap));
          store_slope(score, slope, key);
        }
        if constexpr (kSteps.bias) {
          const FloatVector added = hn::LoadU(kTag, bias + key);
          score = hn::IfThenElse(hn::Eq(added, hidden), hidden, hn::MulAdd(score, factor, added));
        } else if constexpr (kSteps.scale) {
          score = hn::Mul(score, factor);
        }
        if constexpr (kSteps.keep) score = hn::IfThenElse(kept_lanes(keep + key), score, hidden);
        // Padding behind the last key is −∞ before, and must be after.
        if constexpr (kSteps.scale) score = hide_behind(score, tile.keys - key);
        largest[j] = hn::Max(score, largest[j]);
        hn::StoreU(score, kTag, scores + key);
      }
    }
    for (int j = 0; j < kPanelVectors; ++j) {
      hn::StoreU(largest[j], kTag, row_max + row * kPanelWidth + j * kLanes);
    }
  });
}

void finish_scores(const ScoreTile& tile, const ScoreRule& rule, const ScoreExtras& extras,
                   float* row_max) {
  const auto run = [&](auto scaled, auto softcap, auto bias) HWY_ATTR {
    if (extras.keep == nullptr) {
      finish_rows<ScoreSteps{scaled(), softcap(), bias(), false}>(tile, rule, extras, row_max);
    } else {
      finish_rows<ScoreSteps{scaled(), softcap(), bias(), true}>(tile, rule, extras, row_max);
    }
  };
  const std::true_type yes;
  const std::false_type no;
  if (!rule.finished) return run(no, no, no);
  if (rule.softcap > 0.0F) return extras.bias == nullptr ? run(yes, yes, no) : run(yes, yes, yes);
  return extras.bias == nullptr ? run(yes, no, no) : run(yes, no, yes);
}

// Four numbers, one of each of four rows.
using Quad = hn::FixedTag<float, 4>;
using QuadVector = hn::Vec<Quad>;

// Folds the 16 lanes of four rows into one number each: lane i with i + 8, then i + 4, i + 2, i + 1.
template <typename Join>
HWY_INLINE QuadVector fold_lanes(const float* lanes, const Join& join) {
  const Quad quad;
  QuadVector rows[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, lanes += kPanelWidth) {
    rows[i] = join(join(hn::LoadU(quad, lanes), hn::LoadU(quad, lanes + 8)),
                   join(hn::LoadU(quad, lanes + 4), hn::LoadU(quad, lanes + 12)));
  }
  const auto lo01 = hn::InterleaveLower(quad, rows[0], rows[1]);  // 0 0 1 1 of rows 0 and 1
  const auto lo23 = hn::InterleaveLower(quad, rows[2], rows[3]);
  const auto hi01 = hn::InterleaveUpper(quad, rows[0], rows[1]);
  const auto hi23 = hn::InterleaveUpper(quad, rows[2], rows[3]);
  const auto lane0 = hn::ConcatLowerLower(quad, lo23, lo01);
  const auto lane1 = hn::ConcatUpperUpper(quad, lo23, lo01);
  const auto lane2 = hn::ConcatLowerLower(quad, hi23, hi01);
  const auto lane3 = hn::ConcatUpperUpper(quad, hi23, hi01);
  return join(join(lane0, lane2), join(lane1, lane3));
}

// The new reference of four rows, and what it makes of the sums so far.
HWY_INLINE void move_references(const float* row_max, float factor, float* reference,
                                float* rescale) {
  const Quad quad;
  const hn::RebindToSigned<Quad> ints;
  const auto largest =
      fold_lanes(row_max, [](QuadVector a, QuadVector b) HWY_ATTR { return hn::Max(a, b); });
  const auto before = hn::LoadU(quad, reference);
  const auto wanted = hn::Ceil(hn::Mul(largest, hn::Set(quad, factor)));
  const auto now = hn::IfThenElse(hn::Gt(wanted, before), wanted, before);
  const auto exponent = hn::Sub(before, now);
  const auto power = hn::BitCast(
      quad, hn::ShiftLeft<23>(hn::BitCast(ints, hn::Add(hn::Set(quad, kRounder), exponent))));
  // Equal references need no rescaling; −∞ − −∞ would be NaN.
  const auto scaled = hn::IfThenElseZero(hn::Ge(exponent, hn::Set(quad, -126.0F)), power);
  hn::StoreU(hn::IfThenElse(hn::Eq(now, before), hn::Set(quad, 1.0F), scaled), quad, rescale);
  hn::StoreU(now, quad, reference);
}

// Turns a row's scores into weights and adds them to 16 lanes; `times` multiplies what is stored.
template <bool Sum>
HWY_INLINE void weigh_row(float* scores, std::int64_t begin, std::int64_t end, float factor,
                          float reference, float times, float* lanes) {
  if (HWY_UNLIKELY(!(std::abs(reference) < kLargestReference))) {
    if (Sum) std::fill_n(lanes, kPanelWidth, 0.0F);
    for (std::int64_t key = begin; key < end; ++key) {
      const float w = careful_weight(factor, reference, scores[key]);
      scores[key] = Sum || w == 0.0F ? w : w * times;
      if (Sum) lanes[key % kPanelWidth] += w;
    }
    return;
  }
  const VectorWeightRule rule{WeightRule(factor, reference)};
  const FloatVector scale = hn::Set(kTag, times);
  FloatVector sums[kPanelVectors];
  for (auto& lane_sums : sums) lane_sums = hn::Zero(kTag);
  for (std::int64_t key = begin; key < end; key += kPanelWidth) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) {
      const FloatVector score = hn::LoadU(kTag, scores + key + j * kLanes);
      const FloatVector w = Sum ? weight(rule, score) : weight(rule, score, scale);
      if (Sum) sums[j] = hn::Add(sums[j], w);
      hn::StoreU(w, kTag, scores + key + j * kLanes);
    }
  }
  if (!Sum) return;
#pragma GCC unroll 4
  for (int j = 0; j < kPanelVectors; ++j) hn::StoreU(sums[j], kTag, lanes + j * kLanes);
}

void online_softmax(const ScoreTile& tile, float factor, const float* row_max,
                    const SoftmaxRows& rows) {
  const Quad quad;
  for (std::int64_t row = 0; row < tile.rows; row += 4) {
    move_references(row_max + row * kPanelWidth, factor, rows.reference + row, rows.rescale + row);
  }
  HWY_ALIGN float lanes[4 * kPanelWidth] = {};
  std::int64_t pending = 0;  // rows whose lanes wait to be folded
  const auto fold = [&](std::int64_t first) HWY_ATTR {
    const auto added =
        fold_lanes(lanes, [](QuadVector a, QuadVector b) HWY_ATTR { return hn::Add(a, b); });
    const auto before =
        hn::Mul(hn::LoadU(quad, rows.sum + first), hn::LoadU(quad, rows.rescale + first));
    hn::StoreU(hn::Add(before, added), quad, rows.sum + first);
    pending = 0;
  };
  for_each_row(tile, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    weigh_row<true>(tile.values + row * tile.stride, begin, end, factor, rows.reference[row], 1.0F,
                    lanes + pending * kPanelWidth);
    if (++pending == 4) fold(row - 3);
  });
  if (pending > 0) fold(tile.rows - pending);
}

void probabilities(const ScoreTile& tile, float factor, const float* reference,
                   const float* inverse_sum) {
  for_each_row(tile, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    weigh_row<false>(tile.values + row * tile.stride, begin, end, factor, reference[row],
                     inverse_sum[row], nullptr);
  });
}

// Philox4x32-10, a counter in each 64-bit lane. Products of 32-bit words fill a lane; what they leave
// in its upper half does no harm, because only the lower one is multiplied.
using WordTag = hn::RebindToUnsigned<FloatTag>;
using LaneTag = hn::RepartitionToWide<WordTag>;
using LaneVector = hn::Vec<LaneTag>;

class PanelPhilox {
 public:
  explicit PanelPhilox(const DropoutTile& dropout)
      : head_(hn::Set(LaneTag(), dropout.head)), sequence_(hn::Set(LaneTag(), dropout.sequence)) {
    auto low = static_cast<std::uint32_t>(dropout.seed);
    auto high = static_cast<std::uint32_t>(dropout.seed >> 32U);
    for (auto& round : keys_) {
      round[0] = low;
      round[1] = high;
      low += 0x9E3779B9U;
      high += 0xBB67AE85U;
    }
    // Blocks of 128 bits hold counters b and b + blocks, so that the words come out in order.
    constexpr std::uint64_t kBlocks = kLanes / 4;
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      order_[2 * block] = block;
      order_[2 * block + 1] = block + kBlocks;
    }
  }

  // Words of keys 4·group, …, 2·kLanes of them.
  struct Words {
    hn::Vec<WordTag> first, second;
  };
  HWY_INLINE Words words(std::uint32_t group, std::uint32_t query) const {
    const LaneTag lanes;
    const WordTag word_tag;
    const auto factor0 = hn::Set(word_tag, 0xD2511F53U);
    const auto factor1 = hn::Set(word_tag, 0xCD9E8D57U);
    LaneVector x0 = hn::Add(hn::Load(lanes, order_), hn::Set(lanes, std::uint64_t{group}));
    LaneVector x1 = hn::Set(lanes, std::uint64_t{query});
    LaneVector x2 = head_;
    LaneVector x3 = sequence_;
#pragma GCC unroll 10
    for (const auto& key : keys_) {
      const LaneVector a = hn::MulEven(hn::BitCast(word_tag, x0), factor0);
      const LaneVector b = hn::MulEven(hn::BitCast(word_tag, x2), factor1);
      x0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), x1), hn::Set(lanes, key[0]));
      x2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), x3), hn::Set(lanes, key[1]));
      x1 = b;
      x3 = a;
    }
    const auto join = [&](LaneVector low, LaneVector high) HWY_ATTR {
      return hn::BitCast(lanes, hn::OddEven(hn::BitCast(word_tag, hn::ShiftLeft<32>(high)),
                                            hn::BitCast(word_tag, low)));
    };
    const LaneVector low = join(x0, x1);
    const LaneVector high = join(x2, x3);
    return {hn::BitCast(word_tag, hn::InterleaveLower(lanes, low, high)),
            hn::BitCast(word_tag, hn::InterleaveUpper(lanes, low, high))};
  }

 private:
  LaneVector head_, sequence_;
  std::uint64_t keys_[10][2];
  HWY_ALIGN std::uint64_t order_[kLanes / 2];
};

void drop(const ScoreTile& tile, const DropoutTile& dropout) {
  if (dropout.probability <= 0.0F) return;
  const auto limit = static_cast<std::uint32_t>(static_cast<double>(dropout.probability) * 0x1p32);
  const auto threshold = hn::Set(WordTag(), limit);
  const FloatVector scale = hn::Set(kTag, 1.0F / (1.0F - dropout.probability));
  const PanelPhilox philox(dropout);
  const auto keep = [&](hn::Vec<WordTag> words, float* at) HWY_ATTR {
    const auto dropped = hn::RebindMask(kTag, hn::Lt(words, threshold));
    hn::StoreU(hn::IfThenZeroElse(dropped, hn::Mul(hn::LoadU(kTag, at), scale)), kTag, at);
  };
  for_each_row(tile, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    float* values = tile.values + row * tile.stride;
    const std::uint32_t query = dropout.first_query + static_cast<std::uint32_t>(row);
    for (std::int64_t key = begin; key < end; key += 2 * kLanes) {
      const std::uint32_t first = dropout.first_key + static_cast<std::uint32_t>(key);
      const PanelPhilox::Words words = philox.words(first / 4, query);
      keep(words.first, values + key);
      if (key + kLanes < end) keep(words.second, values + key + kLanes);
    }
  });
}

void score_gradient(const ScoreTile& gradient, const float* probabilities, const float* slope,
                    const float* delta, float scale) {
  const FloatVector zero = hn::Zero(kTag);
  const FloatVector factor = hn::Set(kTag, scale);
  for_each_row(gradient, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    float* values = gradient.values + row * gradient.stride;
    const float* p = probabilities + row * gradient.stride;
    const float* derivative = slope == nullptr ? nullptr : slope + row * gradient.stride;
    const FloatVector mean = hn::Set(kTag, delta[row]);
    for (std::int64_t key = begin; key < end; key += kLanes) {
      const FloatVector weight = hn::LoadU(kTag, p + key);
      FloatVector ds = hn::Mul(weight, hn::Sub(hn::LoadU(kTag, values + key), mean));
      FloatVector outer = factor;
      if (derivative != nullptr) outer = hn::Mul(factor, hn::LoadU(kTag, derivative + key));
      ds = hn::Mul(ds, outer);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(weight, zero), ds), kTag, values + key);
    }
  });
}

// Products of two floats are exact in double, so it does not matter whether they are fused.
void row_dots(std::int64_t rows, std::int64_t columns, MatrixView x, MatrixView y, float* dots) {
  // Column i belongs to lane i % 4, whatever the width.
  using Tag = hn::CappedTag<double, 4>;
  const Tag tag;
  const hn::Rebind<float, Tag> floats;
  constexpr std::int64_t kWidth = hn::MaxLanes(tag);
  constexpr std::int64_t kVectors = 4 / kWidth;
  for (std::int64_t row = 0; row < rows; ++row) {
    const MatrixView a = x.from(row, 0);
    const MatrixView b = y.from(row, 0);
    hn::Vec<Tag> sums[kVectors];
    for (auto& sum : sums) sum = hn::Zero(tag);
    std::int64_t i = 0;
    if (a.column_stride == 1 && b.column_stride == 1) {
      for (; i + 4 <= columns; i += 4) {
#pragma GCC unroll 2
        for (std::int64_t j = 0; j < kVectors; ++j) {
          const auto at = [&](const float* p)
                              HWY_ATTR { return hn::PromoteTo(tag, hn::LoadU(floats, p)); };
          sums[j] = hn::MulAdd(at(a.data + i + j * kWidth), at(b.data + i + j * kWidth), sums[j]);
        }
      }
    }
    HWY_ALIGN double lanes[4];
    for (std::int64_t j = 0; j < kVectors; ++j) hn::Store(sums[j], tag, lanes + j * kWidth);
    for (; i < columns; ++i) {
      lanes[i % 4] += static_cast<double>(a(0, i)) * static_cast<double>(b(0, i));
    }
    dots[row] = static_cast<float>((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
  }
}

void sigmoid(std::int64_t count, float* values) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(sigmoid(hn::LoadU(kTag, values + i)), kTag, values + i);
  }
  if (i == count) return;
  HWY_ALIGN float rest[kLanes] = {};
  std::copy(values + i, values + count, rest);
  hn::Store(sigmoid(hn::Load(kTag, rest)), kTag, rest);
  std::copy_n(rest, count - i, values + i);
}

void log_sum_exp(std::int64_t count, const float* references, const float* sums, float* logs) {
  const DoubleTag doubles;
  const hn::Rebind<float, DoubleTag> floats;
  const auto zero = hn::Zero(floats);
  std::int64_t i = 0;
  for (; i + kLanes / 2 <= count; i += kLanes / 2) {
    const auto sum = hn::LoadU(floats, sums + i);
    const auto reference = hn::PromoteTo(doubles, hn::LoadU(floats, references + i));
    const auto log =
        hn::DemoteTo(floats, hn::Add(hn::Mul(reference, hn::Set(doubles, std::numbers::ln2)),
                                     natural_log_of_normal(hn::PromoteTo(doubles, sum))));
    const auto passed = hn::IfThenElse(hn::Eq(hn::Sub(sum, sum), zero), log, sum);
    const auto empty = hn::Set(floats, -std::numeric_limits<float>::infinity());
    hn::StoreU(hn::IfThenElse(hn::Eq(sum, zero), empty, passed), floats, logs + i);
  }
  for (; i < count; ++i) logs[i] = kernels::log_sum_exp(references[i], sums[i]);
}

constexpr TileKernels kTileKernels{finish_scores,  online_softmax, probabilities, drop,
                                   score_gradient, row_dots,       sigmoid,       log_sum_exp};

}  // namespace headwise::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_SCALAR

#endif
