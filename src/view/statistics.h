// What one head does, in a few numbers.
#pragma once

#include <string>
#include <vector>

#include "headwise/view.h"
#include "view/shown_heads.h"

namespace headwise::view {

HeadSummary summarise(const ShownHead& head, std::int64_t first_position);

// "entropy 1.93 (about 6.9 keys) · distance 2.1 · first key 12%", then ever shorter forms.
std::vector<std::string> summary_texts(const HeadSummary& summary);
// The longest of them that takes at most so many columns on a terminal; the shortest, if none does.
std::string summary_text(const HeadSummary& summary, std::size_t columns);

}  // namespace headwise::view
