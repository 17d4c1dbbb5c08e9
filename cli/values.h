// Values of options that are more than one number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace headwise::cli {

// "32,128,512". Throws UsageError that names the option.
std::vector<std::int64_t> integers(const std::string& option, const std::string& text);

// "64,0"; an empty side or "inf" is unlimited: "64," or "64,inf".
using Window = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;
Window window_of(const std::string& option, const std::string& text);

// "name, name and name"
std::string listed(const std::vector<std::string>& names);

}  // namespace headwise::cli
