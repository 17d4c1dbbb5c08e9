// Small files of text: tokens, the description of a machine.
#pragma once

#include <string>
#include <string_view>

namespace headwise::cli {

// All of it; pipes too. Throws FileError that tells the system's reason, and for more than 64 MB.
std::string read_text(const std::string& path);

// ".json" is one of "tokens.JSON" as well.
bool has_extension(std::string_view path, std::string_view extension);

}  // namespace headwise::cli
