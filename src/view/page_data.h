// What a page knows of its heads, as JSON; see src/view/page/data.js for the reader.
#pragma once

#include <cstddef>
#include <string>

#include "headwise/view.h"
#include "view/shown_heads.h"

namespace headwise::view {

// At most about `most_bytes`, but names, tokens and the coarsest level are there in any case.
std::string page_data(const ShownHeads& shown, const HtmlOptions& options, std::size_t most_bytes);

}  // namespace headwise::view
