#include "io/safetensors_index.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "io/file_bytes.h"
#include "io/json_events.h"
#include "io/malformed.h"
#include "io/quoted.h"
#include "io/safetensors.h"

namespace headwise::io {
namespace {

namespace fs = std::filesystem;

// {"metadata": {…anything…}, "weight_map": {"name": "model-00001-of-00002.safetensors", …}}
class IndexEvents final : public JsonEvents {
 public:
  std::vector<ShardEntry> take() && {
    if (!has_map_) malformed("the index has no weight_map");
    return std::move(entries_);
  }

  bool start_object(std::size_t /*elements*/) override {
    if (in_map()) unexpected("an object");
    if (is_map() && std::exchange(has_map_, true)) malformed("weight_map appears twice");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t elements) override {
    if (depth_ == 0 || is_map() || in_map()) unexpected("an array");
    return start_object(elements);
  }
  bool end_array() override { return end_object(); }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      key_ = std::move(value);
    } else if (in_map()) {
      name_ = std::move(value);
    }
    return true;
  }
  bool string(string_t& value) override {
    if (!in_map()) return skip("a text");
    if (entries_.size() == kMostTensors) {
      malformed("more than " + std::to_string(kMostTensors) + " tensors");
    }
    entries_.push_back({name_, std::move(value)});
    return true;
  }
  bool null() override { return skip("null"); }
  bool boolean(bool /*value*/) override { return skip("a truth value"); }
  bool number_integer(number_integer_t /*value*/) override { return skip("a number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return skip("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return skip("a number");
  }

 private:
  // What comes next is the weight_map itself, or stands directly in it.
  [[nodiscard]] bool is_map() const { return depth_ == 1 && key_ == "weight_map"; }
  [[nodiscard]] bool in_map() const { return depth_ == 2 && key_ == "weight_map"; }

  // Whatever stands elsewhere in the index does not concern us.
  [[nodiscard]] bool skip(const std::string& what) const {
    if (depth_ == 0 || is_map() || in_map()) unexpected(what);
    return true;
  }
  [[noreturn]] void unexpected(const std::string& what) const override {
    if (depth_ == 0) malformed("the index is " + what + " instead of a JSON object");
    if (depth_ == 1) malformed("weight_map is " + what + " instead of a JSON object");
    malformed("weight_map, " + io::quoted(name_) + ": " + what + " instead of the name of a file");
  }

  std::vector<ShardEntry> entries_;
  std::string key_;   // of the index
  std::string name_;  // of the tensor
  int depth_ = 0;
  bool has_map_ = false;
};

// Neither a path nor one of the names that a folder has for itself and its parent.
void require_plain_name(const std::string& file) {
  const bool is_plain = !file.empty() && file != "." && file != ".." &&
                        file.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!is_plain) {
    malformed("weight_map names " + io::quoted(file) +
              ", which is no plain name of a file beside it");
  }
}

// The shard's path, once it is known that no symbolic link leads elsewhere. In the cache of Hugging
// Face all files are links, from snapshots/<revision>/ to blobs/ beside snapshots.
std::string shard_path(const fs::path& folder, const std::string& file) {
  const fs::path path = folder / file;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) throw FileError(path.string(), "cannot be read: " + error.message());
  const fs::path real_folder = fs::canonical(folder, error);
  const bool is_cached = real_folder.parent_path().filename() == "snapshots" &&
                         real.parent_path() == real_folder.parent_path().parent_path() / "blobs";
  if (error || (real.parent_path() != real_folder && !is_cached)) {
    throw FileError(path.string(), "is a symbolic link out of the folder of its index");
  }
  return path.string();
}

std::unique_ptr<Reader> open_shard(const std::string& path) {
  try {
    return open_safetensors(path);
  } catch (const Malformed& error) {
    throw FileError(path, error.what());
  }
}

// Where the tensor stands among those of the shard.
std::size_t place_in(const Reader& shard, const std::string& tensor) {
  const auto& tensors = shard.tensors();
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), tensor,
      [](const TensorInfo& info, const std::string& name) { return info.name < name; });
  if (found == tensors.end() || found->name != tensor) {
    throw FileError(shard.path(),
                    "has no tensor " + io::quoted(tensor) + ", which its index promises");
  }
  return static_cast<std::size_t>(found - tensors.begin());
}

class ShardedReader final : public Reader {
 public:
  static std::unique_ptr<Reader> open(const std::string& path,
                                      const std::vector<ShardEntry>& entries) {
    const fs::path folder = fs::path(path).parent_path();
    Contents contents{path, "safetensors", {}};
    Shards shards;
    std::vector<Place> places;
    for (const ShardEntry& entry : entries) {
      std::unique_ptr<Reader>& shard = shards[entry.file];
      if (!shard) {
        shard = open_shard(shard_path(folder.empty() ? "." : folder, entry.file));
        contents.metadata.insert(shard->metadata().begin(), shard->metadata().end());
      }
      places.push_back({shard.get(), place_in(*shard, entry.tensor)});
      contents.tensors.push_back(shard->tensors()[places.back().index]);
    }
    return std::unique_ptr<Reader>(
        new ShardedReader(std::move(contents), std::move(shards), std::move(places)));
  }

  [[nodiscard]] AnyTensor read(std::size_t index) const override {
    return places_[index].shard->read(places_[index].index);
  }

 private:
  struct Place {
    const Reader* shard;
    std::size_t index;
  };
  using Shards = std::map<std::string, std::unique_ptr<Reader>>;

  ShardedReader(Contents contents, Shards shards, std::vector<Place> places)
      : Reader(std::move(contents)), shards_(std::move(shards)), places_(std::move(places)) {}

  Shards shards_;
  std::vector<Place> places_;  // in the order of tensors()
};

}  // namespace

std::vector<ShardEntry> parse_safetensors_index(std::string_view json) {
  IndexEvents events;
  parse_json(json, events);
  std::vector<ShardEntry> entries = std::move(events).take();
  for (const ShardEntry& entry : entries) require_plain_name(entry.file);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const auto& a, const auto& b) { return a.tensor == b.tensor; });
  if (twice != entries.end()) {
    malformed("weight_map has the tensor " + io::quoted(twice->tensor) + " twice");
  }
  return entries;
}

std::unique_ptr<Reader> open_safetensors_index(const std::string& path) {
  const FileBytes file = FileBytes::map(path);
  if (file.size() > kLargestHeader) {
    malformed("the index has " + std::to_string(file.size()) + " bytes, more than " +
              std::to_string(kLargestHeader));
  }
  const std::span<const std::byte> bytes = file.look(0, file.size());
  return ShardedReader::open(
      path, parse_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace headwise::io
