// The files of src/view/page, as they stand in the program; the build makes this from them.
#pragma once

#include <string_view>

namespace headwise::view {

extern const std::string_view kPageHtml;    // with {{places}} for the rest
extern const std::string_view kPageStyle;   // CSS
extern const std::string_view kPageScript;  // all scripts in one
}  // namespace headwise::view
