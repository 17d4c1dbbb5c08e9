// Any text as the index of a sharded model: refused, or a sorted list of plain file names.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "fuzz/require.h"
#include "io/malformed.h"
#include "io/safetensors_index.h"

namespace headwise::fuzz {
namespace {

void require_sound(const std::vector<io::ShardEntry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    require(i == 0 || entries[i - 1].tensor < entries[i].tensor, "names are sorted and unique");
    const std::string& file = entries[i].file;
    require(!file.empty() && file != "." && file != "..", "a shard is a file");
    require(file.find('/') == std::string::npos, "a shard lies beside the index");
    require(file.find('\0') == std::string::npos, "a shard's name has no hidden end");
  }
}

void check(std::string_view text) {
  const std::vector<io::ShardEntry> entries = io::parse_safetensors_index(text);
  require_sound(entries);
  nlohmann::json map = nlohmann::json::object();
  for (const io::ShardEntry& entry : entries) map[entry.tensor] = entry.file;
  const auto again = io::parse_safetensors_index(nlohmann::json{{"weight_map", map}}.dump());
  require(again.size() == entries.size(), "what was written is listed");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    require(again[i].tensor == entries[i].tensor && again[i].file == entries[i].file,
            "what was written reads the same");
  }
}

}  // namespace
}  // namespace headwise::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    headwise::fuzz::check({reinterpret_cast<const char*>(data), size});
  } catch (const headwise::io::Malformed&) {
    return 0;
  }
  return 0;
}
