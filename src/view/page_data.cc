#include "view/page_data.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "view/colour_map.h"
#include "view/encode.h"
#include "view/pyramid.h"
#include "view/statistics.h"

namespace headwise::view {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kTile = 256;          // cells on each side, as in data.js
constexpr std::int64_t kNarrowKeys = 65536;  // that two bytes count
constexpr double kBase64 = 4.0 / 3.0;
constexpr double kExactShare = 0.35;    // of the room, for the largest weights of rows
constexpr std::size_t kHeadText = 600;  // bytes of a head beside its weights, about

template <typename T>
void append(std::vector<std::uint8_t>& bytes, const std::vector<T>& values) {
  const std::size_t size = bytes.size();
  bytes.resize(size + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + size, values.data(), values.size() * sizeof(T));
}

// How many weights of every row can be stored exactly: all of them, if there is room.
std::int64_t exact_count(const ShownHeads& shown, double room) {
  const double rows = static_cast<double>(shown.heads.size()) * static_cast<double>(shown.queries);
  const double bytes = (shown.keys > kNarrowKeys ? 8.0 : 6.0) * kBase64;
  const double count = (room * kExactShare / rows - 4.0 * kBase64) / bytes;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(count), 1, shown.keys);
}

// Keys and weights of the largest of every row, in descending order; weights of 0 are left out.
std::string packed_top(const ConstView& weights, std::int64_t count) {
  const std::int64_t keys = weights.extent(1);
  std::vector<std::uint32_t> counts;
  std::vector<float> values;
  std::vector<std::uint32_t> indices;
  std::vector<std::pair<float, std::uint32_t>> row;
  for (std::int64_t query = 0; query < weights.extent(0); ++query) {
    row.clear();
    for (std::int64_t key = 0; key < keys; ++key) {
      const float weight = weights(query, key);
      if (weight > 0.0F) row.emplace_back(weight, static_cast<std::uint32_t>(key));
    }
    const auto kept = std::min<std::int64_t>(count, static_cast<std::int64_t>(row.size()));
    const auto before = [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    std::partial_sort(row.begin(), row.begin() + kept, row.end(), before);
    counts.push_back(static_cast<std::uint32_t>(kept));
    for (std::int64_t i = 0; i < kept; ++i) {
      values.push_back(row[static_cast<std::size_t>(i)].first);
      indices.push_back(row[static_cast<std::size_t>(i)].second);
    }
  }
  std::vector<std::uint8_t> bytes;
  append(bytes, counts);
  append(bytes, values);
  if (keys > kNarrowKeys) {
    append(bytes, indices);
  } else {
    append(bytes, std::vector<std::uint16_t>(indices.begin(), indices.end()));
  }
  return packed(bytes);
}

std::vector<std::string> packed_tiles(const ByteMatrix& level) {
  std::vector<std::string> tiles;
  std::vector<std::uint8_t> bytes;
  for (std::int64_t top = 0; top < level.rows; top += kTile) {
    for (std::int64_t left = 0; left < level.columns; left += kTile) {
      bytes.clear();
      const std::int64_t columns = std::min(kTile, level.columns - left);
      for (std::int64_t row = top; row < std::min(top + kTile, level.rows); ++row) {
        const std::uint8_t* from = level.values.data() + row * level.columns + left;
        bytes.insert(bytes.end(), from, from + columns);
      }
      tiles.push_back(packed(bytes));
    }
  }
  return tiles;
}

std::size_t total_size(const std::vector<std::string>& tiles) {
  return std::accumulate(
      tiles.begin(), tiles.end(), std::size_t{0},
      [](std::size_t sum, const std::string& tile) { return sum + tile.size() + 3; });
}

// From the coarsest level, of at most `coarsest_side` cells, to the finest that `room` allows.
Json packed_levels(const ShownHead& head, float largest, std::int64_t coarsest_side,
                   std::size_t room) {
  std::vector<ByteMatrix> levels = {quantised(head.weights, largest)};
  while (std::max(levels.back().rows, levels.back().columns) > coarsest_side) {
    levels.push_back(halved(levels.back(), coarsest_side));
  }
  Json result = Json::array();
  std::size_t before = 0;  // bytes of the level that is twice as coarse
  for (std::size_t i = levels.size(); i-- > 0;) {
    // A level of four times the cells of the one before never takes less than twice its bytes.
    if (!result.empty() && levels[i].rows > levels[i + 1].rows && 2 * before > room) break;
    std::vector<std::string> tiles = packed_tiles(levels[i]);
    before = total_size(tiles);
    if (!result.empty() && before > room) break;
    room -= std::min(before, room);
    result.push_back({{"level", i},
                      {"rowWeights", levels[i].row_weights},
                      {"columnWeights", levels[i].column_weights},
                      {"tiles", std::move(tiles)}});
  }
  return result;
}

Json statistics(const HeadSummary& summary) {
  return {{"entropy", summary.entropy},         {"distance", summary.mean_distance},
          {"firstKey", summary.first_key_mass}, {"own", summary.diagonal_mass},
          {"previous", summary.previous_mass},  {"emptyRows", summary.empty_rows}};
}

std::string packed_map(Theme theme) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t rgb : colour_map(theme)) {
    for (const unsigned shift : {16U, 8U, 0U}) {
      bytes.push_back(static_cast<std::uint8_t>(rgb >> shift & 0xFFU));
    }
  }
  return base64(bytes);
}

const char* scale_word(ColourScale scale) {
  switch (scale) {
    case ColourScale::Linear:
      return "linear";
    case ColourScale::SquareRoot:
      return "sqrt";
    case ColourScale::Logarithmic:
      return "log";
  }
  return "";
}

Json tokens_json(const std::vector<std::string>& tokens) {
  return tokens.empty() ? Json(nullptr) : Json(tokens);
}

// Cells on the longer side of the coarsest level: thousands of heads have smaller thumbnails.
std::int64_t coarsest_side(std::size_t heads, double room) {
  for (std::int64_t side = 64; side > 8; side /= 2) {
    if (static_cast<double>(heads) * static_cast<double>(side * side) <= 0.3 * room) return side;
  }
  return 8;
}

Json head_json(const ShownHead& head, const ShownHeads& shown, std::int64_t exact,
               std::int64_t coarsest, std::size_t room) {
  const HeadSummary summary = summarise(head, shown.first_position);
  std::string top = packed_top(head.weights, exact);
  const std::size_t used = top.size() + kHeadText;
  return {{"name", head.name},
          {"largest", summary.largest_weight},
          {"statistics", statistics(summary)},
          {"top", std::move(top)},
          {"levels", packed_levels(head, static_cast<float>(summary.largest_weight), coarsest,
                                   room > used ? room - used : 0)}};
}

}  // namespace

std::string page_data(const ShownHeads& shown, const HtmlOptions& options, std::size_t most_bytes) {
  const bool same = shown.first_position == 0 && shown.queries == shown.keys &&
                    shown.query_tokens == shown.key_tokens;
  Json page = {{"title", shown.title},
               {"queries", shown.queries},
               {"keys", shown.keys},
               {"firstPosition", shown.first_position},
               {"sameTokens", same && !shown.query_tokens.empty()},
               {"queryTokens", tokens_json(shown.query_tokens)},
               {"keyTokens", same ? Json(nullptr) : tokens_json(shown.key_tokens)},
               {"largest", shown.largest},
               {"scale", scale_word(options.scale)},
               {"maps", {{"light", packed_map(Theme::Light)}, {"dark", packed_map(Theme::Dark)}}}};
  std::size_t used = script_safe(page.dump()).size();
  const auto heads = shown.heads.size();
  const std::size_t left = most_bytes > used ? most_bytes - used : 0;
  const std::int64_t exact = exact_count(shown, static_cast<double>(left));
  page["topCount"] = exact;
  const std::int64_t coarsest = coarsest_side(heads, static_cast<double>(left));
  std::int64_t done = 0;
  for (const ShownHead& head : shown.heads) {
    // What one head leaves of its share, the next ones have.
    const std::size_t share =
        (most_bytes > used ? most_bytes - used : 0) / (heads - static_cast<std::size_t>(done));
    Json json = head_json(head, shown, exact, coarsest, share);
    used += json.dump().size() + 1;
    page["heads"].push_back(std::move(json));
    ++done;
    if (options.progress) options.progress(done);
  }
  return script_safe(page.dump());
}

}  // namespace headwise::view
