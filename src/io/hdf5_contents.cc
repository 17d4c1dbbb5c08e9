#include "io/hdf5_contents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "io/checked_shape.h"
#include "io/malformed.h"
#include "io/quoted.h"
#include "io/utf8.h"

namespace headwise::io {
namespace {

enum class Record : std::uint64_t { Dataset = 1, Attribute };

// Packing pays: a file may hold more numbers than bytes. Deflate makes a byte of a thousand equal
// ones, trained weights shrink by a tenth. In between lies what is believed, and a mebibyte for
// small tensors of zeros.
constexpr std::uint64_t kMaxRatio = 200;
constexpr std::uint64_t kFreeBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kFreeBytesOfFile = std::uint64_t{64} << 20U;

// ---- Records ---------------------------------------------------------------------------------

void put(std::string& record, std::uint64_t number) {
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  record.append(bytes.data(), bytes.size());
}

void put(std::string& record, std::string_view text) {
  put(record, text.size());
  record += text;
}

class Records {
 public:
  explicit Records(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number()); }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > rest_.size()) malformed("damaged: its table of contents ends early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
};

// ---- Checks ----------------------------------------------------------------------------------

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

// The numbers of a dataset against the bytes that are there.
void check_size(const Hdf5Dataset& dataset, std::uint64_t file_bytes) {
  const std::uint64_t stored = dataset.stored_bytes;
  if (stored > file_bytes) {
    malformed("claims " + bytes_text(stored) + " of a file of " + bytes_text(file_bytes));
  }
  if (dataset.offset && *dataset.offset > file_bytes - stored) malformed("lies outside the file");
  // Cannot overflow: no file has 2^56 bytes.
  const bool is_there =
      dataset.offset ? dataset.bytes == stored : dataset.bytes <= kFreeBytes + kMaxRatio * stored;
  if (dataset.bytes > 0 && !is_there) {
    malformed("shape " + dataset.info.shape.to_string() + " needs " + bytes_text(dataset.bytes) +
              ", but the file holds " + bytes_text(stored) + " for it");
  }
}

// Datasets that share their bytes would make a small file large; so would many small claims.
void check_total(const std::vector<Hdf5Dataset>& datasets, std::uint64_t file_bytes) {
  std::uint64_t stored = 0;
  std::uint64_t unpacked = 0;
  for (const Hdf5Dataset& dataset : datasets) {
    // Cannot overflow: each is at most 200 times the file, and there are few.
    stored += dataset.stored_bytes;
    unpacked += dataset.bytes;
  }
  if (stored > file_bytes) {
    malformed("its datasets claim " + bytes_text(stored) + " of a file of " +
              bytes_text(file_bytes));
  }
  if (unpacked > kFreeBytesOfFile + kMaxRatio * file_bytes) {
    malformed("its datasets need " + bytes_text(unpacked) + ", but the file has only " +
              bytes_text(file_bytes));
  }
}

void decode_claims(Records& records, Hdf5Dataset& dataset) {
  const bool big_endian = records.number() != 0;
  std::vector<std::uint64_t> extents(std::min<std::uint64_t>(records.number(), kMaxRank + 1));
  for (std::uint64_t& extent : extents) extent = records.number();
  dataset.info.shape = checked_shape(extents);
  if (const std::uint64_t offset = records.number(); offset > 0) dataset.offset = offset;
  dataset.stored_bytes = records.number();
  if (const auto type = number_type_named(dataset.info.dtype)) {
    dataset.format = NumberFormat{.type = *type, .big_endian = big_endian};
    dataset.bytes = checked_bytes(dataset.info.shape, 8 * bytes_of(*type));
  }
}

Hdf5Dataset decode_dataset(Records& records, std::uint64_t file_bytes) {
  Hdf5Dataset dataset;
  dataset.info.name = records.text();
  dataset.info.dtype = records.text();
  try {
    if (!is_utf8(dataset.info.name)) malformed("a name that is no UTF-8");
    decode_claims(records, dataset);
    check_size(dataset, file_bytes);
  } catch (const Malformed& error) {
    malformed(quoted(dataset.info.name) + ": " + error.what());
  }
  return dataset;
}

// What is no UTF-8 is no text: bytes that somebody keeps there for a purpose of his own.
void decode_attribute(Records& records, Metadata& attributes) {
  const std::string_view key = records.text();
  const std::string_view text = records.text();
  if (is_utf8(key) && is_utf8(text)) attributes.insert_or_assign(std::string(key), text);
}

}  // namespace

std::string encode(const Hdf5Claim& dataset) {
  std::string record;
  put(record, static_cast<std::uint64_t>(Record::Dataset));
  put(record, dataset.name);
  put(record, dataset.dtype);
  put(record, dataset.big_endian ? 1 : 0);
  put(record, dataset.extents.size());
  for (const std::uint64_t extent : dataset.extents) put(record, extent);
  put(record, dataset.offset);
  put(record, dataset.stored_bytes);
  return record;
}

std::string encode_attribute(std::string_view key, std::string_view text) {
  std::string record;
  put(record, static_cast<std::uint64_t>(Record::Attribute));
  put(record, key);
  put(record, text);
  return record;
}

Hdf5Contents decode_hdf5_contents(std::string_view records, std::uint64_t file_bytes) {
  Hdf5Contents contents;
  Records rest(records);
  while (!rest.empty()) {
    switch (static_cast<Record>(rest.number())) {
      case Record::Dataset:
        contents.datasets.push_back(decode_dataset(rest, file_bytes));
        break;
      case Record::Attribute:
        decode_attribute(rest, contents.attributes);
        break;
      default:
        malformed("damaged: its table of contents makes no sense");
    }
  }
  check_total(contents.datasets, file_bytes);
  std::sort(contents.datasets.begin(), contents.datasets.end(),
            [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  const auto twice =
      std::adjacent_find(contents.datasets.begin(), contents.datasets.end(),
                         [](const auto& a, const auto& b) { return a.info.name == b.info.name; });
  if (twice != contents.datasets.end()) {
    malformed(quoted(twice->info.name) + ": there are two of this name");
  }
  return contents;
}

std::size_t max_hdf5_records(std::uint64_t file_bytes) {
  // Paths repeat the names of the groups above, which the file has once.
  return (std::size_t{16} << 20U) + 16 * file_bytes;
}

}  // namespace headwise::io
