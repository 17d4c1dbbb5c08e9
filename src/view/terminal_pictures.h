// The two dresses of draw_terminal.
#pragma once

#include <string>
#include <vector>

#include "headwise/view.h"
#include "view/shown_heads.h"

namespace headwise::view {

std::string plain_picture(const ShownHeads& shown, const TerminalOptions& options);
std::string colour_picture(const ShownHeads& shown, const TerminalOptions& options);

}  // namespace headwise::view
