#include "view/shown_heads.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"
#include "view/printable.h"

namespace headwise::view {

namespace {

// Rounding to 8 or 16 bits elsewhere may leave a weight a little above 1.
constexpr float kMostWeight = 1.01F;

std::string number(std::int64_t value) { return std::to_string(value); }

// (H,T,S) of the sequence asked for.
ConstView of_sequence(std::string_view function, const AttentionPicture& picture) {
  const ConstView& weights = picture.weights;
  const int rank = weights.present() ? weights.rank() : 0;
  if (rank < 2 || rank > 4) {
    base::fail(function, "weights", "shape (T, S), (H, T, S) or (B, H, T, S)",
               weights.present() ? weights.shape().to_string() : "nothing");
  }
  const std::int64_t sequences = rank == 4 ? weights.extent(0) : 1;
  if (sequences == 0) {
    base::fail(function, "weights", "at least one sequence", weights.shape().to_string());
  }
  if (picture.sequence < 0 || picture.sequence >= sequences) {
    base::fail(function, "sequence", "an index within 0 … " + number(sequences - 1),
               number(picture.sequence));
  }
  if (rank == 4) return weights.at(0, picture.sequence);
  return rank == 3 ? weights : weights.broadcast(0, 1);
}

void check_count(std::string_view function, std::string_view argument, std::size_t count,
                 std::int64_t wanted, const char* what) {
  if (count == 0 || static_cast<std::int64_t>(count) == wanted) return;
  base::fail(function, argument, number(wanted) + ", one for each " + what, std::to_string(count));
}

std::vector<std::int64_t> checked_heads(std::string_view function, const AttentionPicture& picture,
                                        std::int64_t count) {
  std::vector<std::int64_t> heads = picture.heads;
  if (heads.empty()) {
    heads.resize(static_cast<std::size_t>(count));
    std::iota(heads.begin(), heads.end(), 0);
  }
  for (const std::int64_t head : heads) {
    if (head < 0 || head >= count) {
      base::fail(function, "heads", "indices within 0 … " + number(count - 1), number(head));
    }
  }
  return heads;
}

// The largest weight. Refuses what cannot be weights, naming the first such place.
float checked_largest(std::string_view function, const ShownHeads& shown) {
  float largest = 0.0F;
  for (const ShownHead& head : shown.heads) {
    for (std::int64_t row = 0; row < shown.queries; ++row) {
      for (std::int64_t key = 0; key < shown.keys; ++key) {
        const float weight = head.weights(row, key);
        if (!(weight >= 0.0F && weight <= kMostWeight)) {
          const bool finite = std::isfinite(weight);
          base::fail(function, "weights", "numbers within 0 … 1",
                     base::to_string(static_cast<double>(weight)) + " at " + head.name +
                         ", query " + number(shown.position(row)) + ", key " + number(key) +
                         (finite ? " (scores before the softmax?)" : ""));
        }
        largest = std::max(largest, weight);
      }
    }
  }
  return largest;
}

std::vector<std::string> printable_tokens(const std::vector<std::string>& tokens,
                                          std::int64_t begin, std::int64_t end) {
  std::vector<std::string> shown;
  if (tokens.empty()) return shown;
  shown.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i) {
    shown.push_back(printable_token(tokens[static_cast<std::size_t>(i)]));
  }
  return shown;
}

}  // namespace

std::string ShownHeads::query_label(std::int64_t row) const {
  return query_tokens.empty() ? number(position(row)) : query_tokens[static_cast<std::size_t>(row)];
}

std::string ShownHeads::key_label(std::int64_t key) const {
  return key_tokens.empty() ? number(key) : key_tokens[static_cast<std::size_t>(key)];
}

ShownHeads shown_heads(std::string_view function, const AttentionPicture& picture) {
  const ConstView weights = of_sequence(function, picture);
  const std::int64_t queries = weights.extent(1);
  const std::int64_t keys = weights.extent(2);
  const std::int64_t end = picture.end_row.value_or(queries);
  if (weights.extent(0) == 0 || queries == 0 || keys == 0) {
    base::fail(function, "weights", "at least one head, query and key",
               weights.shape().to_string());
  }
  if (picture.first_row < 0 || end > queries || picture.first_row >= end) {
    base::fail(function, "rows", "a range within 0 … " + number(queries),
               number(picture.first_row) + " … " + number(end) +
                   (picture.first_row == end ? ", which is none" : ""));
  }
  check_count(function, "query_tokens", picture.query_tokens.size(), queries, "query");
  check_count(function, "key_tokens", picture.key_tokens.size(), keys, "key");
  check_count(function, "head_names", picture.head_names.size(), weights.extent(0), "head");

  ShownHeads shown;
  shown.queries = end - picture.first_row;
  shown.keys = keys;
  shown.first_position = picture.query_offset + picture.first_row;
  shown.title = printable(picture.title);
  shown.query_tokens = printable_tokens(picture.query_tokens, picture.first_row, end);
  const bool same = picture.key_tokens.empty() && queries == keys && picture.query_offset == 0;
  shown.key_tokens = printable_tokens(same ? picture.query_tokens : picture.key_tokens, 0, keys);
  for (const std::int64_t head : checked_heads(function, picture, weights.extent(0))) {
    shown.heads.push_back({picture.head_names.empty()
                               ? "head " + number(head)
                               : printable(picture.head_names[static_cast<std::size_t>(head)], 60),
                           weights.at(0, head).sliced(0, picture.first_row, end)});
  }
  shown.largest = checked_largest(function, shown);
  return shown;
}

}  // namespace headwise::view
