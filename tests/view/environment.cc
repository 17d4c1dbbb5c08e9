#include "support/rapidcheck_defaults.h"

// GoogleTest owns and deletes it.
static const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(
    new headwise::test_support::RapidCheckDefaults(20261117, 300));
