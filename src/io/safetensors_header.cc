#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "io/checked_shape.h"
#include "io/json_events.h"
#include "io/malformed.h"
#include "io/quoted.h"
#include "io/safetensors.h"

namespace headwise::io {
namespace {

// Every type that the format has; number_type.h says which of them can be read.
struct StoredType {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array<StoredType, 22> kStoredTypes = {
    {{"BOOL", 8},        {"F4", 4},         {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8},    {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
     {"U16", 16},        {"F16", 16},       {"BF16", 16},   {"I32", 32},    {"U32", 32},
     {"F32", 32},        {"C64", 64},       {"F64", 64},    {"I64", 64},    {"U64", 64},
     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}}};

std::uint64_t bits_of(const std::string& dtype) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == dtype) return type.bits;
  }
  malformed("unknown dtype " + io::quoted(dtype));
}

std::string bytes_from(std::uint64_t begin, std::uint64_t end) {
  return "bytes " + std::to_string(begin) + " to " + std::to_string(end) + " of the data";
}

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}
class HeaderEvents final : public JsonEvents {
 public:
  SafetensorsHeader take() && { return std::move(header_); }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::Outside) {
      place_ = Place::Tensors;
    } else if (place_ == Place::Tensors) {
      place_ = name_ == "__metadata__" ? Place::Metadata : Place::Entry;
      if (place_ == Place::Metadata && std::exchange(has_metadata_, true)) {
        malformed("__metadata__ appears twice");
      }
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Entry) finish_entry();
    place_ = place_ == Place::Tensors ? Place::Outside : Place::Tensors;
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::Entry) {
      choose_field(value);
    } else {
      name_ = std::move(value);
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::Metadata) {
      if (!header_.metadata.emplace(name_, std::move(value)).second) {
        malformed("__metadata__ has the key " + io::quoted(name_) + " twice");
      }
    } else if (place_ == Place::Entry && field_ == "dtype") {
      dtype_ = std::move(value);
    } else {
      unexpected("a text");
    }
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::Entry || field_ == "dtype") unexpected("an array");
    place_ = Place::Numbers;
    numbers() = std::vector<std::uint64_t>();
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::Numbers) unexpected("a number");
    if (numbers()->size() > kMaxRank)
      in_entry("more than " + std::to_string(kMaxRank) + " numbers");
    numbers()->push_back(value);
    return true;
  }

  bool end_array() override {
    place_ = Place::Entry;
    return true;
  }

 private:
  enum class Place { Outside, Tensors, Metadata, Entry, Numbers };

  [[noreturn]] void unexpected(const std::string& what) const override {
    switch (place_) {
      case Place::Outside:
        malformed("the header is " + what + " instead of a JSON object");
      case Place::Tensors:
        malformed("tensor " + io::quoted(name_) + ": " + what + " instead of a JSON object");
      case Place::Metadata:
        malformed("__metadata__, " + io::quoted(name_) + ": " + what + " instead of a text");
      default:
        in_entry(what);
    }
  }

  [[noreturn]] void in_entry(const std::string& problem) const {
    malformed("tensor " + io::quoted(name_) + ", " + field_ + ": unexpected " + problem);
  }

  void choose_field(const std::string& field) {
    const bool is_known = field == "dtype" || field == "shape" || field == "data_offsets";
    if (!is_known) malformed("tensor " + io::quoted(name_) + ": unknown key " + io::quoted(field));
    field_ = field;
    const bool is_there = field == "dtype" ? dtype_.has_value() : numbers().has_value();
    if (is_there) malformed("tensor " + io::quoted(name_) + ": " + field + " appears twice");
  }

  std::optional<std::vector<std::uint64_t>>& numbers() {
    return field_ == "shape" ? shape_ : offsets_;
  }

  void finish_entry() {
    if (header_.entries.size() == kMostTensors) {
      malformed("more than " + std::to_string(kMostTensors) + " tensors");
    }
    try {
      header_.entries.push_back(checked_entry());
    } catch (const Malformed& error) {
      malformed("tensor " + io::quoted(name_) + ": " + error.what());
    }
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
  }

  SafetensorsEntry checked_entry() {
    if (!dtype_) malformed("has no dtype");
    if (!shape_) malformed("has no shape");
    if (!offsets_) malformed("has no data_offsets");
    if (offsets_->size() != 2) malformed("data_offsets are not two numbers");
    const std::uint64_t begin = (*offsets_)[0];
    const std::uint64_t end = (*offsets_)[1];
    if (begin > end) {
      malformed("data_offsets are reversed: " + std::to_string(begin) + ", " + std::to_string(end));
    }
    const Shape shape = checked_shape(*shape_);
    const std::uint64_t bytes = checked_bytes(shape, bits_of(*dtype_));
    if (bytes != end - begin) {
      malformed(*dtype_ + " of shape " + shape.to_string() + " takes " + std::to_string(bytes) +
                " bytes, but data_offsets give it " + std::to_string(end - begin));
    }
    return {{name_, shape, *dtype_}, begin, end};
  }

  SafetensorsHeader header_;
  Place place_ = Place::Outside;
  std::string name_;   // of the tensor, or the key of the metadata
  std::string field_;  // of the entry
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::vector<std::uint64_t>> offsets_;
  bool has_metadata_ = false;
};

void require_unique(const std::vector<SafetensorsEntry>& sorted) {
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const auto& a, const auto& b) { return a.info.name == b.info.name; });
  if (twice != sorted.end()) malformed("tensor " + io::quoted(twice->info.name) + " appears twice");
}

// Every byte of the data belongs to one tensor: what lies in a hole would be hidden from whoever
// looks into the file.
void require_covered(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::vector<const SafetensorsEntry*> by_place;
  by_place.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  const auto refuse = [](const SafetensorsEntry& entry, const std::string& problem) {
    malformed("tensor " + io::quoted(entry.info.name) + " has " +
              bytes_from(entry.begin, entry.end) + problem);
  };
  std::uint64_t covered = 0;
  for (const SafetensorsEntry* entry : by_place) {
    if (entry->end > data_bytes) {
      refuse(*entry, ", but there are only " + std::to_string(data_bytes) +
                         ": the file is truncated or damaged");
    }
    if (entry->begin < covered) refuse(*entry, ", which overlap another tensor");
    if (entry->begin > covered)
      malformed(bytes_from(covered, entry->begin) + " belong to no tensor");
    covered = entry->end;
  }
  if (covered < data_bytes) malformed(bytes_from(covered, data_bytes) + " belong to no tensor");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes) {
  HeaderEvents events;
  parse_json(json, events);
  SafetensorsHeader header = std::move(events).take();
  std::sort(header.entries.begin(), header.entries.end(),
            [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  require_unique(header.entries);
  require_covered(header.entries, data_bytes);
  return header;
}

}  // namespace headwise::io
