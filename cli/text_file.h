// Small files of text: tokens, the description of a machine.
#pragma once

#include <string>

namespace headwise::cli {

// All of it; pipes too. Throws FileError that tells the system's reason, and for more than 64 MB.
std::string read_text(const std::string& path);

}  // namespace headwise::cli
