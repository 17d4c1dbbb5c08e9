// What the property tests of one run share.
#pragma once

#include "support/accuracy.h"

namespace headwise::test_support {

// Filled by the tests, printed and judged as a whole when all of them are done.
AccuracyTable& accuracy_table();

}  // namespace headwise::test_support
