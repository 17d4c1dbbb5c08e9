#include "support/oracle_mask.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "support/philox.h"

namespace headwise::oracle {
namespace {

Axes axes_or_default(std::optional<Axes> axes, std::size_t rank) {
  return axes.value_or(rank == 2 ? Axes::QueryKey : Axes::BatchHeadQueryKey);
}

}  // namespace

std::int64_t Rules::caller_keys(std::int64_t sequence) const {
  return sequences_.keys(sequence) - options_.unmasked_tail;
}

bool Rules::in_tail(const Entry& entry) const { return entry.key >= caller_keys(entry.sequence); }

std::int64_t Rules::valid_queries(std::int64_t sequence) const {
  std::int64_t valid = sequences_.queries(sequence);
  for (const auto& lengths : options_.mask.query_lengths)
    valid = std::min(valid, lengths.view()(sequence));
  return valid;
}

// By the lengths that hold for the whole sequence, (B); those per query say nothing about its end.
std::int64_t Rules::valid_keys(std::int64_t sequence) const {
  std::int64_t valid = caller_keys(sequence);
  for (const auto& lengths : options_.mask.key_lengths) {
    if (lengths.view().rank() == 1) valid = std::min(valid, lengths.view()(sequence));
  }
  return valid;
}

std::int64_t Rules::query_position(const Entry& entry) const {
  const auto& positions = options_.mask.positions;
  const std::int64_t b = entry.sequence;
  std::int64_t offset = 0;
  if (const auto* alignment = std::get_if<Alignment>(&positions)) {
    if (*alignment == Alignment::BottomRight) offset = valid_keys(b) - valid_queries(b);
  } else if (const auto* offsets = std::get_if<std::vector<std::int64_t>>(&positions)) {
    offset = offsets->size() == 1 ? offsets->front() : (*offsets)[static_cast<std::size_t>(b)];
  }
  return offset + entry.query;
}

bool Rules::in_window(const Entry& entry) const {
  const std::int64_t position = query_position(entry);
  const Mask& mask = options_.mask;
  if (mask.left && entry.key < position - *mask.left) return false;
  return !mask.right || entry.key <= position + *mask.right;
}

bool Rules::in_lengths(const Entry& entry) const {
  return std::ranges::all_of(
      options_.mask.key_lengths, [&](const SharedView<std::int64_t>& lengths) {
        const auto& view = lengths.view();
        return entry.key <
               (view.rank() == 1 ? view(entry.sequence) : view(entry.sequence, entry.query));
      });
}

// Ids are (T) and (S), or (B,T) and (B,S); packed: one for every row, without the tail's rows.
bool Rules::in_same_segment(const Segments& segments, const Entry& entry) const {
  const auto id = [&](const TensorView<const std::int64_t>& ids, std::int64_t place,
                      std::int64_t start) {
    if (ids.rank() == 2) return ids(entry.sequence, place);
    return ids(options_.packed ? start + place : place);
  };
  const std::int64_t b = entry.sequence;
  const std::int64_t first_key = sequences_.first_key(b) - b * options_.unmasked_tail;
  return id(segments.query.view(), entry.query, sequences_.first_query(b)) ==
         id(segments.key.view(), entry.key, first_key);
}

std::vector<std::int64_t> Rules::indices(std::optional<Axes> axes, std::size_t rank,
                                         const Entry& entry) const {
  const bool packed = options_.packed.has_value();
  const std::int64_t batch = packed ? 0 : entry.sequence;
  const std::int64_t query = entry.query + (packed ? sequences_.first_query(entry.sequence) : 0);
  switch (axes_or_default(axes, rank)) {
    case Axes::BatchHeadQueryKey:
      return {batch, entry.head, query, entry.key};
    case Axes::QueryKey:
      return {query, entry.key};
    case Axes::BatchQueryKey:
      return {batch, query, entry.key};
    case Axes::HeadQueryKey:
      return {entry.head, query, entry.key};
    case Axes::BatchKey:
      return {batch, entry.key};
    case Axes::BatchQuery:
      return {batch, query};
  }
  return {};
}

std::size_t Rules::offset_in(const std::vector<std::int64_t>& shape, std::optional<Axes> axes,
                             const Entry& entry) const {
  const std::vector<std::int64_t> index = indices(axes, shape.size(), entry);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    offset = offset * shape[axis] + (shape[axis] == 1 ? 0 : index[axis]);
  }
  return static_cast<std::size_t>(offset);
}

bool Rules::attends(const Entry& entry) const {
  if (entry.query >= valid_queries(entry.sequence)) return false;
  if (in_tail(entry)) return true;
  if (!in_window(entry) || !in_lengths(entry)) return false;

  // A view's own strides in place of row-major ones, otherwise as offset_in.
  const auto value_at = [&](const auto& view, std::optional<Axes> axes) {
    const std::vector<std::int64_t> index =
        indices(axes, static_cast<std::size_t>(view.rank()), entry);
    std::int64_t offset = 0;
    for (int axis = 0; axis < view.rank(); ++axis) {
      if (view.extent(axis) != 1)
        offset += index[static_cast<std::size_t>(axis)] * view.stride(axis);
    }
    return view.data()[offset];
  };
  for (const KeepMask& keep : options_.mask.keeps) {
    if (!value_at(keep.values.view(), keep.axes)) return false;
  }
  for (const Segments& segments : options_.mask.segments) {
    if (!in_same_segment(segments, entry)) return false;
  }
  return std::ranges::none_of(options_.bias, [&](const Bias& bias) {
    const float added = value_at(bias.values.view(), bias.axes);
    return std::isinf(added) && added < 0.0F;
  });
}

bool Rules::dropped(const Entry& entry) const {
  const Dropout& dropout = options_.dropout;
  const auto b = static_cast<std::size_t>(entry.sequence);
  const std::int64_t id = dropout.sequence_ids.empty() ? entry.sequence : dropout.sequence_ids[b];
  const PhiloxCounter words = philox4x32_10(
      {static_cast<std::uint32_t>(entry.key / 4), static_cast<std::uint32_t>(query_position(entry)),
       static_cast<std::uint32_t>(entry.head), static_cast<std::uint32_t>(id)},
      {static_cast<std::uint32_t>(dropout.seed), static_cast<std::uint32_t>(dropout.seed >> 32U)});
  const double threshold = std::floor(std::ldexp(static_cast<double>(dropout.probability), 32));
  return static_cast<double>(words[static_cast<std::size_t>(entry.key % 4)]) < threshold;
}

}  // namespace headwise::oracle
