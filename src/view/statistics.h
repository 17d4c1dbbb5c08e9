// What one head does, in a few numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "headwise/view.h"
#include "view/shown_heads.h"

namespace headwise::view {

HeadSummary summarise(const ShownHead& head, std::int64_t first_position);

// All its weights are 0.
bool attends_nothing(const ShownHead& head);

// "entropy 1.93 (about 6.9 keys) · distance 2.1 · first key 12%", then ever shorter forms, at last
// the entropy alone, "1.93". Of a head whose weights are all 0: "attends nothing", at last "–".
std::vector<std::string> summary_texts(const HeadSummary& summary);

// For every head the same form: the longest that fits for all of them; the shortest, if none does.
std::vector<std::string> fitting_summaries(const ShownHeads& shown,
                                           const std::function<bool(const std::string&)>& fits);

}  // namespace headwise::view
