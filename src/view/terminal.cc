#include <string>

#include "base/check.h"
#include "headwise/view.h"
#include "view/terminal_pictures.h"

namespace headwise {

std::string draw_terminal(const AttentionPicture& picture, const TerminalOptions& options) {
  constexpr int kLeast = 20;
  if (options.width < kLeast) {
    base::fail("draw_terminal", "options.width", "at least " + std::to_string(kLeast) + " columns",
               std::to_string(options.width));
  }
  const view::ShownHeads shown = view::shown_heads("draw_terminal", picture);
  return options.colour == TerminalOptions::Colour::None ? view::plain_picture(shown, options)
                                                         : view::colour_picture(shown, options);
}

}  // namespace headwise
