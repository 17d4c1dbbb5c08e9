#include "headwise/mask.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace headwise {

namespace {

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// The tighter of two limits, where none means unlimited.
std::optional<std::int64_t> tighter(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::string describe(const decltype(Mask::positions)& positions) {
  if (const auto* alignment = std::get_if<Alignment>(&positions)) {
    return *alignment == Alignment::TopLeft ? "TopLeft" : "BottomRight";
  }
  return "query offsets";
}

void require_count(const char* function, const char* argument, std::optional<std::int64_t> count) {
  if (count && *count < 0) {
    base::fail(function, argument, "a count ≥ 0, or nullopt for unlimited", std::to_string(*count));
  }
}

void require_present(const char* function, const char* argument, bool present) {
  if (!present) base::fail(function, argument, "an array", "none");
}

}  // namespace

Mask operator&(Mask a, const Mask& b) {
  a.left = tighter(a.left, b.left);
  a.right = tighter(a.right, b.right);
  if (std::holds_alternative<std::monostate>(a.positions)) {
    a.positions = b.positions;
  } else if (!std::holds_alternative<std::monostate>(b.positions) && a.positions != b.positions) {
    base::fail("operator&", "positions", "one alignment or offset for the whole mask",
               describe(a.positions) + " and " + describe(b.positions));
  }
  append(a.key_lengths, b.key_lengths);
  append(a.query_lengths, b.query_lengths);
  append(a.keeps, b.keeps);
  append(a.segments, b.segments);
  return a;
}

Mask causal() { return window(std::nullopt, 0); }

Mask causal(Alignment alignment) { return causal() & aligned(alignment); }

Mask aligned(Alignment alignment) {
  Mask mask;
  mask.positions = alignment;
  return mask;
}

Mask query_offset(std::int64_t offset) { return query_offsets({offset}); }

Mask query_offsets(std::vector<std::int64_t> offsets) {
  Mask mask;
  mask.positions = std::move(offsets);
  return mask;
}

Mask window(std::optional<std::int64_t> left, std::optional<std::int64_t> right) {
  require_count("window", "left", left);
  require_count("window", "right", right);
  Mask mask;
  mask.left = left;
  mask.right = right;
  return mask;
}

Mask valid_lengths(SharedView<std::int64_t> lengths) {
  require_present("valid_lengths", "lengths", lengths.view().present());
  Mask mask;
  mask.key_lengths.push_back(std::move(lengths));
  return mask;
}

Mask query_lengths(SharedView<std::int64_t> lengths) {
  require_present("query_lengths", "lengths", lengths.view().present());
  Mask mask;
  mask.query_lengths.push_back(std::move(lengths));
  return mask;
}

Mask keep(SharedView<bool> values, std::optional<Axes> axes) {
  require_present("keep", "values", values.view().present());
  Mask mask;
  mask.keeps.push_back({std::move(values), axes});
  return mask;
}

Mask segments(const SharedView<std::int64_t>& ids) { return segments(ids, ids); }

Mask segments(SharedView<std::int64_t> query_ids, SharedView<std::int64_t> key_ids) {
  require_present("segments", "query_ids", query_ids.view().present());
  require_present("segments", "key_ids", key_ids.view().present());
  Mask mask;
  mask.segments.push_back({std::move(query_ids), std::move(key_ids)});
  return mask;
}

}  // namespace headwise
