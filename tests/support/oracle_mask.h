// Who attends whom: the masks and biases of a call, read one entry at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headwise/attention.h"
#include "support/oracle.h"

namespace headwise::oracle {

// One entry of one head's score matrix.
struct Entry {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;  // within its sequence
  std::int64_t key = 0;    // within its sequence; the tail follows the caller's keys
};

class Rules {
 public:
  Rules(const AttentionOptions& options, const Sequences& sequences)
      : options_(options), sequences_(sequences) {}

  [[nodiscard]] bool attends(const Entry& entry) const;
  [[nodiscard]] bool in_tail(const Entry& entry) const;
  // Place of the entry in a row-major array with these axes (a bias), broadcasting extents of 1.
  [[nodiscard]] std::size_t offset_in(const std::vector<std::int64_t>& shape,
                                      std::optional<Axes> axes, const Entry& entry) const;
  // Among the keys, which stand at 0, 1, 2, …
  [[nodiscard]] std::int64_t query_position(const Entry& entry) const;
  // By dropout; whatever is kept is scaled by 1/(1−p).
  [[nodiscard]] bool dropped(const Entry& entry) const;

 private:
  [[nodiscard]] std::int64_t caller_keys(std::int64_t sequence) const;
  [[nodiscard]] std::int64_t valid_queries(std::int64_t sequence) const;
  [[nodiscard]] std::int64_t valid_keys(std::int64_t sequence) const;
  [[nodiscard]] bool in_window(const Entry& entry) const;
  [[nodiscard]] bool in_lengths(const Entry& entry) const;
  [[nodiscard]] bool in_same_segment(const Segments& segments, const Entry& entry) const;
  [[nodiscard]] std::vector<std::int64_t> indices(std::optional<Axes> axes, std::size_t rank,
                                                  const Entry& entry) const;

  const AttentionOptions& options_;
  const Sequences& sequences_;
};

}  // namespace headwise::oracle
