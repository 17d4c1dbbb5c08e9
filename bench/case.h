// One row of the benchmark: it knows its work, its floor, and how to run itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/cost.h"

namespace headwise::bench {

// What a row is held against.
enum class Yardstick {
  Peak,      // FLOP/s against the FMA peak
  ReadSpeed  // bytes/s against the read speed of a buffer of the same size
};

// Least share of the yardstick; 0: none is set.
struct Floor {
  double one_thread = 0.0;
  double more_threads = 0.0;
  [[nodiscard]] double at(int threads) const { return threads == 1 ? one_thread : more_threads; }
};
inline Floor both(double share) { return {share, share}; }

// Another row of the same group to compare rates with, and the least ratio; 0: only tell it.
struct Against {
  std::string id = {};
  std::string name = {};  // as in "1.08 × name"
  double least = 0.0;
};

inline constexpr const char* kScalingGroup = "scaling: one head, d 64";

struct Case {
  std::string id = {};     // unique: "attention-512"
  std::string group = {};  // rows that take turns, and stand under one title
  std::string label = {};  // what differs inside the group
  std::string shape = {};
  double flops = 0.0;  // useful ones: masked pairs do not count
  double bytes = 0.0;  // every input read once, every output written once
  double pairs = 0.0;  // of a query and a key, over all heads and sequences
  Yardstick yardstick = Yardstick::Peak;
  Floor floor = {};
  Against against = {};
  std::string remark = {};             // ends the row's note
  std::optional<LayerCost> cost = {};  // of a layer: its time is predicted as well
  bool peer = false;                   // another library's row, to compare with
  bool in_picture = true;
  // Makes the tensors; what it returns runs the row once. They live as long as that function.
  std::function<std::function<void(Context&)>()> prepare = {};
};

// Groups in order, every group's rows together.
std::vector<Case> all_cases();

// The parts that all_cases() joins, one file each.
void add_attention_cases(std::vector<Case>& cases);
void add_few_query_cases(std::vector<Case>& cases);
void add_projection_cases(std::vector<Case>& cases);
void add_layer_cases(std::vector<Case>& cases);
void add_scaling_cases(std::vector<Case>& cases);

}  // namespace headwise::bench
