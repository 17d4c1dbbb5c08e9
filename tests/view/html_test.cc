// The page: whole, within its bytes, with every weight where its script will look for it. What a
// browser makes of it is tested in tests/cli/test_view_page.py.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headwise/view.h"
#include "some_weights.h"
#include "support/expect_error.h"
#include "view/encode.h"
#include "view/page_sources.h"

namespace headwise::test_view {
namespace {

using nlohmann::json;

std::string data_text(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::vector<std::uint8_t> unbase64(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    held = held << 6U | static_cast<std::uint32_t>(letters.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<std::uint8_t>(held >> bits & 0xFFU));
  }
  return bytes;
}

std::vector<std::uint8_t> unpacked(const std::string& text, std::size_t size) {
  const std::vector<std::uint8_t> packed = unbase64(text);
  std::vector<std::uint8_t> bytes(size);
  uLongf got = size;
  EXPECT_EQ(uncompress(bytes.data(), &got, packed.data(), packed.size()), Z_OK);
  bytes.resize(got);
  return bytes;
}

struct Top {
  std::vector<std::uint32_t> keys;
  std::vector<float> weights;
};

// As page/data.js reads them: counts, then all weights, then all keys.
std::vector<Top> top_rows(const json& head, std::int64_t queries, bool wide) {
  const auto rows = static_cast<std::size_t>(queries);
  const std::vector<std::uint8_t> bytes = unpacked(head["top"], 1U << 24U);
  std::vector<std::uint32_t> counts(rows);
  std::memcpy(counts.data(), bytes.data(), 4 * rows);
  std::size_t total = 0;
  for (const std::uint32_t count : counts) total += count;
  EXPECT_EQ(bytes.size(), 4 * rows + total * (wide ? 8 : 6));
  std::vector<Top> result(rows);
  std::size_t place = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::uint32_t i = 0; i < counts[row]; ++i, ++place) {
      float weight = 0.0F;
      std::uint32_t key = 0;
      std::memcpy(&weight, bytes.data() + 4 * (rows + place), 4);
      const std::size_t key_bytes = wide ? 4 : 2;
      std::memcpy(&key, bytes.data() + 4 * (rows + total) + key_bytes * place, key_bytes);
      result[row].weights.push_back(weight);
      result[row].keys.push_back(key);
    }
  }
  return result;
}

// The largest weights of a row by a plain stable sort.
Top expected_top(const ConstView& weights, std::int64_t query, std::int64_t count) {
  std::vector<std::uint32_t> keys;
  for (std::int64_t k = 0; k < weights.extent(1); ++k) {
    if (weights(query, k) > 0.0F) keys.push_back(static_cast<std::uint32_t>(k));
  }
  std::stable_sort(keys.begin(), keys.end(), [&](std::uint32_t a, std::uint32_t b) {
    return weights(query, a) > weights(query, b);
  });
  keys.resize(std::min<std::size_t>(keys.size(), static_cast<std::size_t>(count)));
  Top top{keys, {}};
  for (const std::uint32_t key : keys) top.weights.push_back(weights(query, key));
  return top;
}

void expect_top(const Tensor& weights, const json& data) {
  const std::int64_t queries = weights.extent(1);
  const std::int64_t count = data["topCount"];
  for (std::int64_t h = 0; h < weights.extent(0); ++h) {
    const ConstView head = ConstView(weights).at(0, h);
    const auto rows =
        top_rows(data["heads"][static_cast<std::size_t>(h)], queries, weights.extent(2) > 65536);
    for (std::int64_t q = 0; q < queries; ++q) {
      const Top wanted = expected_top(head, q, count);
      const Top& actual = rows[static_cast<std::size_t>(q)];
      ASSERT_EQ(actual.keys, wanted.keys) << "head " << h << " query " << q;
      ASSERT_EQ(actual.weights, wanted.weights);
    }
  }
}

// Every cell of every level lies at the largest weight of its block, within its byte's step.
void expect_levels(const Tensor& weights, const json& data) {
  constexpr std::int64_t kTile = 256;
  const std::int64_t queries = weights.extent(1);
  const std::int64_t keys = weights.extent(2);
  for (std::int64_t h = 0; h < weights.extent(0); ++h) {
    const ConstView head = ConstView(weights).at(0, h);
    const json& record = data["heads"][static_cast<std::size_t>(h)];
    const double largest = record["largest"];
    for (const json& level : record["levels"]) {
      const std::int64_t down = level["rowWeights"];
      const std::int64_t side = level["columnWeights"];
      const std::int64_t rows = (queries + down - 1) / down;
      const std::int64_t columns = (keys + side - 1) / side;
      ASSERT_EQ(std::max(down, side), std::int64_t{1} << level["level"].get<int>());
      const std::int64_t across = (columns + kTile - 1) / kTile;
      ASSERT_EQ(std::ssize(level["tiles"]), across * ((rows + kTile - 1) / kTile));
      for (std::int64_t tile = 0; tile < std::ssize(level["tiles"]); ++tile) {
        const std::int64_t top = tile / across * kTile;
        const std::int64_t left = tile % across * kTile;
        const std::int64_t width = std::min(kTile, columns - left);
        const std::int64_t height = std::min(kTile, rows - top);
        const auto bytes = unpacked(level["tiles"][static_cast<std::size_t>(tile)],
                                    static_cast<std::size_t>(width * height) + 1);
        ASSERT_EQ(std::ssize(bytes), width * height);
        for (std::int64_t r = 0; r < height; ++r) {
          for (std::int64_t c = 0; c < width; ++c) {
            float block = 0.0F;
            for (std::int64_t q = (top + r) * down; q < std::min((top + r + 1) * down, queries);
                 ++q) {
              for (std::int64_t k = (left + c) * side; k < std::min((left + c + 1) * side, keys);
                   ++k) {
                block = std::max(block, head(q, k));
              }
            }
            const double root = 255.0 * std::pow(static_cast<double>(block) / largest, 0.25);
            const double byte = bytes[static_cast<std::size_t>(r * width + c)];
            ASSERT_LE(std::abs(byte - root), byte == 1.0 ? 1.0 : 0.501);
          }
        }
      }
    }
  }
}

TEST(Html, HoldsEveryWeightOfSmallHeads) {
  const Tensor weights = random_weights(3, 20, 30, 1);
  const json data = json::parse(data_text(draw_html({.weights = weights})));
  EXPECT_EQ(data["topCount"], 30);
  EXPECT_EQ(data["queries"], 20);
  EXPECT_EQ(data["keys"], 30);
  EXPECT_EQ(data["queryTokens"], nullptr);
  EXPECT_EQ(data["heads"][2]["levels"].back()["level"], 0);
  expect_top(weights, data);
  expect_levels(weights, data);
}

TEST(Html, CausalRowsLeaveOutTheirZeros) {
  const Tensor weights = random_weights(1, 12, 12, 2, /*causal=*/true);
  const json data = json::parse(data_text(draw_html({.weights = weights})));
  expect_top(weights, data);
  EXPECT_EQ(top_rows(data["heads"][0], 12, false)[3].keys.size(), 4U);
}

TEST(Html, TilesOfLargeHeads) {
  const Tensor weights = random_weights(2, 300, 530, 3);
  const json data = json::parse(data_text(draw_html({.weights = weights})));
  EXPECT_EQ(data["heads"][0]["levels"].back()["tiles"].size(), 6U);
  expect_levels(weights, data);
  expect_top(weights, data);
}

TEST(Html, FewQueriesKeepTheirRows) {
  const Tensor weights = random_weights(2, 3, 9000, 11);
  const json data = json::parse(data_text(draw_html({.weights = weights})));
  EXPECT_EQ(data["heads"][0]["levels"].size(), 9U);  // of 9000, …, 36 keys
  for (const json& level : data["heads"][0]["levels"]) EXPECT_EQ(level["rowWeights"], 1);
  expect_levels(weights, data);
}

TEST(Html, StaysWithinItsBytes) {
  const Tensor weights = random_weights(4, 400, 400, 4);
  const AttentionPicture picture{.weights = weights, .query_tokens = numbered_tokens("token", 400)};
  std::int64_t finest_before = 100;
  for (const std::size_t most : {300'000U, 600'000U, 1'500'000U, 9'500'000U}) {
    const std::string page = draw_html(picture, {.most_bytes = most});
    EXPECT_LE(page.size(), most);
    EXPECT_GE(page.size(), most < 2'000'000U ? most / 2 : 0U);  // and uses them
    const json data = json::parse(data_text(page));
    const std::int64_t finest = data["heads"][0]["levels"].back()["level"];
    EXPECT_LE(finest, finest_before);
    finest_before = finest;
    expect_top(weights, data);
    expect_levels(weights, data);
  }
  EXPECT_EQ(finest_before, 0);
}

TEST(Html, ManyHeadsStayWithinTheBytesToo) {
  const Tensor one = random_weights(1, 200, 200, 5);
  AttentionPicture picture{.weights = one};
  picture.heads.assign(1500, 0);
  const std::string page = draw_html(picture, {.most_bytes = 8'000'000});
  EXPECT_LE(page.size(), 8'000'000U);
}

TEST(Html, KeysBeyondSixteenBits) {
  const Tensor weights = random_weights(1, 2, 70000, 6);
  const json data = json::parse(data_text(draw_html({.weights = weights})));
  expect_top(weights, data);
}

TEST(Html, HeadsThatAttendNothing) {
  const Tensor zeros({1, 5, 5});
  const json data = json::parse(data_text(draw_html({.weights = zeros})));
  EXPECT_EQ(data["largest"], 0.0);
  EXPECT_EQ(data["heads"][0]["statistics"]["emptyRows"], 5);
}

TEST(Html, SaysWhereRowsStand) {
  const Tensor weights = random_weights(2, 6, 6, 7);
  const json data = json::parse(data_text(draw_html({.weights = weights,
                                                     .heads = {1},
                                                     .first_row = 2,
                                                     .end_row = 4,
                                                     .query_tokens = numbered_tokens("t", 6),
                                                     .title = "A title"})));
  EXPECT_EQ(data["title"], "A title");
  EXPECT_EQ(data["firstPosition"], 2);
  EXPECT_EQ(data["sameTokens"], false);
  EXPECT_EQ(data["queryTokens"], (json{"t2", "t3"}));
  EXPECT_EQ(data["keyTokens"].size(), 6U);
  EXPECT_EQ(data["heads"][0]["name"], "head 1");
}

TEST(Html, StatisticsAreThoseOfSummariseHeads) {
  const Tensor weights = random_weights(2, 6, 6, 8);
  const json data = json::parse(data_text(draw_html({.weights = weights})));
  const auto summaries = summarise_heads({.weights = weights});
  for (std::size_t h = 0; h < 2; ++h) {
    const json& statistics = data["heads"][h]["statistics"];
    EXPECT_EQ(statistics["entropy"], summaries[h].entropy);
    EXPECT_EQ(statistics["distance"], summaries[h].mean_distance);
    EXPECT_EQ(statistics["firstKey"], summaries[h].first_key_mass);
    EXPECT_EQ(statistics["own"], summaries[h].diagonal_mass);
    EXPECT_EQ(statistics["previous"], summaries[h].previous_mass);
  }
}

const std::vector<std::string> kHostile = {"</script><script>window.pwned=1</script>",
                                           "<!--",
                                           "-->",
                                           "<img src=x onerror=alert(1)>",
                                           "\"; window.pwned=1; //",
                                           "{{script}}",
                                           "{{data}}",
                                           "\u2028\u2029",
                                           "\\u003c/script>",
                                           "&lt;b&gt;"};

TEST(Html, TokensStayWithinTheirStrings) {
  const auto count = static_cast<std::int64_t>(kHostile.size());
  const Tensor weights = random_weights(1, count, count, 9);
  const std::string page = draw_html({.weights = weights,
                                      .query_tokens = kHostile,
                                      .head_names = {"</script><b>"},
                                      .title = "</title></script><!-- {{style}}"});
  const std::string data = data_text(page);
  EXPECT_EQ(data.find('<'), std::string::npos);
  EXPECT_EQ(data.find('>'), std::string::npos);
  EXPECT_EQ(data.find('&'), std::string::npos);
  EXPECT_EQ(data.find("\u2028"), std::string::npos);
  // Parsed, they are what they were, but for the characters that hide.
  const json parsed = json::parse(data);
  EXPECT_EQ(parsed["queryTokens"][0], kHostile[0]);
  EXPECT_EQ(parsed["queryTokens"][5], "{{script}}");
  EXPECT_EQ(parsed["queryTokens"][7], "��");
  EXPECT_EQ(parsed["title"], "</title></script><!-- {{style}}");
  // The page around them is the one of any other weights.
  const Tensor plain = random_weights(1, 2, 2, 9);
  const std::string other = draw_html({.weights = plain});
  const auto frame = [](const std::string& text) {
    const std::string inner = data_text(text);
    std::string whole = text;
    return whole.erase(text.find(inner), inner.size());
  };
  EXPECT_EQ(frame(page), frame(other));
}

TEST(Html, AsksForNothingOutside) {
  const Tensor weights = random_weights(1, 2, 2, 10);
  const std::string page = draw_html({.weights = weights});
  for (const std::string word :
       {"http://", "https://", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest",
        "WebSocket", "innerHTML", "eval(", "{{"}) {
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find(view::policy_hash(view::kPageScript)), std::string::npos);
  EXPECT_NE(page.find(view::policy_hash(view::kPageStyle)), std::string::npos);
}

TEST(Html, ScriptAndStyleCannotEndTheirElements) {
  for (const std::string_view source : {view::kPageScript, view::kPageStyle}) {
    EXPECT_GT(source.size(), 1000U);
    EXPECT_EQ(source.find("</"), std::string_view::npos);
    EXPECT_EQ(source.find("<!--"), std::string_view::npos);
  }
}

TEST(Encode, KnownHashes) {
  // echo -n "alert('Hello, world.');" | openssl dgst -sha256 -binary | base64: CSP's own example.
  EXPECT_EQ(view::policy_hash("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
}

RC_GTEST_PROP(Encode, PackedBytesComeBack, (const std::vector<std::uint8_t>& bytes)) {
  RC_ASSERT(unpacked(view::packed(bytes), bytes.size() + 1) == bytes);
}

TEST(Html, TellsHowFarItIs) {
  const Tensor weights = random_weights(3, 2, 2, 11);
  std::vector<std::int64_t> told;
  (void)draw_html({.weights = weights},
                  {.progress = [&](std::int64_t done) { told.push_back(done); }});
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace headwise::test_view
