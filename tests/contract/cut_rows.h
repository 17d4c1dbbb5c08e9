// Some query rows of a call, as a call of their own: a chunk of a prefill, or a step of a decode.
#pragma once

#include <cstdint>

#include "contract/runs.h"
#include "support/alone.h"

namespace headwise::test_support {

// Rows [begin, end) of a call of one sequence without a batch axis. Where those rows stand among
// the keys is said by a query offset.
OpAlone cut_rows(const OpCase& whole, std::int64_t begin, std::int64_t end);
LayerAlone cut_rows(const LayerCase& whole, std::int64_t begin, std::int64_t end);

// What those rows have of the whole call's results; nothing of what sums over all rows.
// `row_axis` is the one of the output's rows.
Results cut_rows(const Results& whole, int row_axis, std::int64_t begin, std::int64_t end);

}  // namespace headwise::test_support
