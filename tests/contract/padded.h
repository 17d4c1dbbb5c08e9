// The sequences of a packed batch, padded to one length with garbage.
#pragma once

#include "contract/runs.h"
#include "support/random_case.h"

namespace headwise::test_support {

// `packed` must be packed and have neither a tail nor extra keys, which stand behind the padding and
// so at other places. The garbage (NaN, infinities, huge numbers; true in keep masks) comes from
// the recipe's seed; lengths hide it.
OpCase padded(const OpCase& packed);
LayerCase padded(const LayerCase& packed);

// The packed batch's part of a padded batch's results; what has no rows stays as it is.
Results unpadded(const Results& padded, const PackedLengths& lengths, Layout layout);

}  // namespace headwise::test_support
