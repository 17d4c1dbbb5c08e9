// Text from files, before it reaches a terminal.
#pragma once

#include <string>
#include <string_view>

namespace headwise::terminal {

// '?' for every control character, which a terminal would obey: line ends, ESC, and those that UTF-8
// writes in two bytes.
std::string printable(std::string_view text);

}  // namespace headwise::terminal
