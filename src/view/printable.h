// Token text that can do no harm: what a file says becomes characters that show, and nothing else.
#pragma once

#include <string>
#include <string_view>

namespace headwise::view {

// Valid UTF-8 without control characters, line ends, bidirectional controls or other invisible
// characters: what ASCII has of them is written as in source code ("\n", "\x1b"), the rest becomes
// U+FFFD. Letters of right-to-left scripts stay, so do joiners within words and emoji. Blanks alone
// become "␣". At most `longest` characters of the text; what is longer ends in "…".
std::string printable(std::string_view text, std::size_t longest = 200);

// The same for a token, which shows even if it is empty: "∅".
std::string printable_token(std::string_view text);

// For a terminal, whose columns count: the same, without joiners, cut to `columns` by "…".
std::string terminal_printable(std::string_view text, std::size_t columns);

// Columns on a terminal of text that is printable: 2 for wide characters, 0 for combining ones.
std::size_t terminal_columns(std::string_view text);

}  // namespace headwise::view
