// The table of contents that comes from the isolated process is not believed.
#include "io/hdf5_contents.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/malformed.h"
#include "support/dice.h"

namespace headwise::io {
namespace {

constexpr std::uint64_t kFile = 10'000;
constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;

std::string record(const std::string& name, const std::vector<std::uint64_t>& extents,
                   std::uint64_t offset, std::uint64_t stored, const std::string& dtype = "F32") {
  return encode({.name = name,
                 .dtype = dtype,
                 .big_endian = false,
                 .extents = extents,
                 .offset = offset,
                 .stored_bytes = stored});
}

std::string error_of(const std::string& records, std::uint64_t file_bytes = kFile) {
  try {
    (void)decode_hdf5_contents(records, file_bytes);
  } catch (const Malformed& error) {
    return error.what();
  }
  return "";
}

TEST(Hdf5Contents, WhatIsSentIsFound) {
  const auto contents = decode_hdf5_contents(
      record("b", {2, 3}, 100, 24) + encode_attribute("g@name", "ä") +
          encode(
              {.name = "a", .dtype = "F16", .big_endian = true, .extents = {}, .stored_bytes = 2}),
      kFile);
  ASSERT_EQ(contents.datasets.size(), 2U);
  const Hdf5Dataset& a = contents.datasets[0];
  EXPECT_EQ(a.info.name, "a");
  EXPECT_EQ(a.info.dtype, "F16");
  EXPECT_EQ(a.info.shape, Shape());
  ASSERT_TRUE(a.format);
  EXPECT_EQ(a.format->type, NumberType::F16);
  EXPECT_TRUE(a.format->big_endian);
  EXPECT_FALSE(a.offset);
  EXPECT_EQ(a.bytes, 2U);
  const Hdf5Dataset& b = contents.datasets[1];
  EXPECT_EQ(b.info.name, "b");
  EXPECT_EQ(b.info.shape, (Shape{2, 3}));
  EXPECT_FALSE(b.format->big_endian);
  EXPECT_EQ(b.offset, 100U);
  EXPECT_EQ(b.bytes, 24U);
  EXPECT_EQ(b.stored_bytes, 24U);
  EXPECT_EQ(contents.attributes, (Metadata{{"g@name", "ä"}}));
}

TEST(Hdf5Contents, PlaceInTheFile) {
  EXPECT_EQ(error_of(record("x", {6}, kFile - 24, 24)), "");
  EXPECT_EQ(error_of(record("x", {6}, kFile - 23, 24)), "'x': lies outside the file");
  EXPECT_EQ(error_of(record("x", {6}, ~std::uint64_t{0}, 24)), "'x': lies outside the file");
  EXPECT_EQ(error_of(record("x", {6}, ~std::uint64_t{0} - 23, 24)), "'x': lies outside the file");
  EXPECT_EQ(error_of(record("x", {6}, 10, kFile + 1)),
            "'x': claims 10001 bytes of a file of 10000 bytes");
  EXPECT_EQ(error_of(record("x", {6}, 10, 23)),
            "'x': shape (6,) needs 24 bytes, but the file holds 23 bytes for it");
  EXPECT_NE(error_of(record("x", {6}, 10, 25)), "");
  EXPECT_EQ(error_of(record("x", {6, 0}, 10, 0)), "") << "nothing lies anywhere";
}

TEST(Hdf5Contents, PackedBytesAreBelievedUpToARatio) {
  EXPECT_EQ(error_of(record("x", {kMebibyte / 4}, 0, 0)), "");
  EXPECT_NE(error_of(record("x", {kMebibyte / 4 + 1}, 0, 0)), "");
  EXPECT_EQ(error_of(record("x", {(kMebibyte + 200 * 1000) / 4}, 0, 1000)), "");
  EXPECT_NE(error_of(record("x", {(kMebibyte + 200 * 1000) / 4 + 1}, 0, 1000)), "");
  EXPECT_NE(error_of(record("x", {std::uint64_t{1} << 60U}, 0, kFile)), "");
}

TEST(Hdf5Contents, Totals) {
  std::string records = record("a", {1000}, 10, 4000) + record("b", {1000}, 10, 4000);
  EXPECT_EQ(error_of(records), "");
  records += record("c", {1000}, 10, 4000);
  EXPECT_EQ(error_of(records), "its datasets claim 12000 bytes of a file of 10000 bytes");

  // 64 MiB and 200 times the file, in pieces that are believed each.
  records.clear();
  for (int i = 0; i < 65; ++i) records += record(std::to_string(i), {kMebibyte / 4}, 0, 0);
  EXPECT_EQ(error_of(records), "");
  records += record("one more", {kMebibyte / 4}, 0, 0);
  EXPECT_NE(error_of(records).find("its datasets need 69206016 bytes"), std::string::npos);
}

TEST(Hdf5Contents, Shapes) {
  EXPECT_EQ(error_of(record("x", std::vector<std::uint64_t>(8, 1), 10, 4)), "");
  EXPECT_EQ(error_of(record("x", std::vector<std::uint64_t>(9, 1), 10, 4)),
            "'x': has more than 8 dimensions");
  const std::uint64_t half = std::uint64_t{1} << 32U;
  EXPECT_NE(error_of(record("x", {half, half}, 10, 4)).find("64 bits"), std::string::npos);
  EXPECT_NE(error_of(record("x", {~std::uint64_t{0}}, 10, 4)).find("64 bits"), std::string::npos);
  EXPECT_NE(error_of(record("x", {half, half, 0}, 10, 0)).find("64 bits"), std::string::npos);
  EXPECT_NE(error_of(record("x", {std::uint64_t{1} << 61U}, 10, 4)).find("64 bits"),
            std::string::npos)
      << "bytes, not elements";
}

TEST(Hdf5Contents, Names) {
  EXPECT_EQ(error_of(record("x", {1}, 10, 4) + record("x", {1}, 20, 4)),
            "'x': there are two of this name");
  EXPECT_EQ(error_of(record("\xC0\x80", {1}, 10, 4)), "'\\xc0\\x80': a name that is no UTF-8");
  const auto contents = decode_hdf5_contents(
      encode_attribute("a@b", "\xFF") + encode_attribute("\xFF@b", "c"), kFile);
  EXPECT_TRUE(contents.attributes.empty()) << "what is no UTF-8 is no text";
}

TEST(Hdf5Contents, WhatIsNoNumberIsListed) {
  const auto contents = decode_hdf5_contents(record("x", {3}, 10, 48, "STRING"), kFile);
  ASSERT_EQ(contents.datasets.size(), 1U);
  EXPECT_EQ(contents.datasets[0].info.dtype, "STRING");
  EXPECT_FALSE(contents.datasets[0].format);
  EXPECT_EQ(error_of(record("x", {3}, 10, ~std::uint64_t{0}, "STRING")).substr(0, 11),
            "'x': claims");
}

TEST(Hdf5Contents, EveryTruncationIsAnError) {
  const std::string first = record("a/name", {2, 3}, 100, 24);
  const std::string second = encode_attribute("g@name", "text");
  const std::string whole = first + second;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const bool is_whole = length == 0 || length == first.size() || length == whole.size();
    EXPECT_EQ(error_of(whole.substr(0, length)).empty(), is_whole) << length;
  }
}

TEST(Hdf5Contents, NonsenseIsAnErrorOrHarmless) {
  test_support::Dice dice(11);
  const std::string whole = record("a/name", {2, 3}, 100, 24) + encode_attribute("g@name", "text") +
                            record("b", {5}, 0, 20, "F64");
  int errors = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string records = whole;
    for (std::int64_t i = dice.between(1, 3); i > 0; --i) {
      records[static_cast<std::size_t>(dice.between(
          0, static_cast<std::int64_t>(records.size()) - 1))] = static_cast<char>(dice.bits());
    }
    try {
      for (const Hdf5Dataset& dataset : decode_hdf5_contents(records, kFile).datasets) {
        ASSERT_LE(dataset.bytes, kMebibyte + 200 * kFile);
        ASSERT_LE(dataset.offset.value_or(0) + (dataset.offset ? dataset.bytes : 0), kFile);
      }
    } catch (const Malformed&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 1000);
  EXPECT_LT(errors, 20'000);
}

TEST(Hdf5Contents, MemoryFollowsTheFile) {
  EXPECT_EQ(max_hdf5_records(0), 16 * kMebibyte);
  EXPECT_EQ(max_hdf5_records(kFile), 16 * kMebibyte + 16 * kFile);
}

}  // namespace
}  // namespace headwise::io
