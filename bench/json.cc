#include <nlohmann/json.hpp>

#include "blas.h"
#include "headwise/version.h"
#include "report.h"

namespace headwise::bench {

namespace {

using Json = nlohmann::ordered_json;

Json yardsticks_json(const ThreadYardsticks& y) {
  Json reads = Json::array();
  for (const ReadSpeed& read : y.reads) {
    reads.push_back({{"place", read.place},
                     {"buffer_bytes", read.bytes},
                     {"bytes_per_second", read.bytes_per_second}});
  }
  return {{"threads", y.threads}, {"peak_flops_per_second", y.peak}, {"read_speed", reads}};
}

Json row_json(const Summary& s) {
  const Measurement& m = *s.measurement;
  const Case& row = *s.row;
  Json json = {{"id", row.id},
               {"group", row.group},
               {"label", row.label},
               {"shape", row.shape},
               {"threads", m.threads},
               {"flops", row.flops},
               {"bytes", row.bytes},
               {"pairs", row.pairs},
               {"peer", row.peer},
               {"yardstick", row.yardstick == Yardstick::Peak ? "peak" : "read_speed"},
               {"scratch_bytes", m.scratch_bytes}};
  if (!m.failure.empty()) {
    json["failure"] = m.failure;
    return json;
  }
  json["disturbed"] = s.disturbed;
  json["seconds"] = s.seconds;
  json["rate"] = s.rate;
  json["share"] = {{"median", s.share}, {"quartiles", {s.share_low, s.share_high}}};
  json["floor"] = s.floor > 0.0 ? Json(s.floor) : Json();
  json["verdict"] = s.verdict == Verdict::None ? Json() : Json(to_string(s.verdict));
  if (s.ratio) {
    json["against"] = {{"id", row.against.id}, {"ratio", *s.ratio}, {"least", row.against.least}};
  }
  if (s.predicted) {
    json["prediction"] = {{"seconds", *s.predicted}, {"over_measured", *s.prediction_ratio}};
  }
  json["bound"] = {{"by", s.bound}, {"flops_per_byte", s.intensity}, {"ridge", s.ridge}};
  for (const Sample& sample : m.samples) {
    json["samples"].push_back({{"round", sample.round},
                               {"seconds", sample.timing.seconds},
                               {"yardstick", sample.timing.yardstick},
                               {"waited", sample.timing.waited},
                               {"calm", sample.timing.calm}});
  }
  return json;
}

}  // namespace

std::string json_text(const Machine& machine, const std::vector<Summary>& summaries) {
  Json json = {
      {"headwise", {HEADWISE_VERSION_MAJOR, HEADWISE_VERSION_MINOR, HEADWISE_VERSION_PATCH}},
      {"machine",
       {{"cpu", machine.cpu},
        {"cpus", machine.cpus},
        {"target", machine.target},
        {"lanes", machine.lanes},
        {"call_seconds", machine.call_seconds},
        {"blas", blas_name()}}}};
  for (const ThreadYardsticks& y : machine.yardsticks) {
    json["machine"]["yardsticks"].push_back(yardsticks_json(y));
  }
  json["rows"] = Json::array();
  for (const Summary& s : summaries) json["rows"].push_back(row_json(s));
  return json.dump(2) + "\n";
}

}  // namespace headwise::bench
