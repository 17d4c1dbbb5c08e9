// One query over many keys: every key and value is used once, so reading them is all there is.
#include "attention_rows.h"

namespace headwise::bench {

namespace {

Case decode_row(Case row, const HeadShape& shape) {
  row.group = "few queries: GB/s of keys and values";
  row.yardstick = Yardstick::ReadSpeed;
  row = forward_row(std::move(row), shape);
  row.bytes = shape.key_value_bytes();
  return row;
}

}  // namespace

void add_few_query_cases(std::vector<Case>& cases) {
  const auto shape = [](std::int64_t keys, std::int64_t heads, std::int64_t kv, std::int64_t size) {
    return HeadShape{1, 1, keys, heads, kv, size};
  };
  cases.push_back(
      decode_row({.id = "cross-1500", .label = "Whisper cross, 1500 keys", .floor = both(0.85)},
                 shape(1500, 8, 8, 64)));
  cases.push_back(
      decode_row({.id = "decode-512", .label = "decode, context 512"}, shape(512, 32, 8, 128)));
  cases.push_back(
      decode_row({.id = "decode-4096", .label = "decode, context 4096", .floor = both(0.85)},
                 shape(4096, 32, 8, 128)));
  cases.push_back(decode_row({.id = "decode-32768", .label = "decode, context 32768"},
                             shape(32768, 32, 8, 128)));
}

}  // namespace headwise::bench
