// Words of a file in a message: what a file calls its tensors may hold line breaks, commands for a
// terminal, or megabytes.
#pragma once

#include <string>
#include <string_view>

namespace headwise::io {

// In single quotes, on one line, of readable length. Call it io::quoted: for a std::string the
// compiler would look into std as well, which has another.
std::string quoted(std::string_view text);

}  // namespace headwise::io
