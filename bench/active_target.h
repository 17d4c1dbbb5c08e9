// Which instruction set the library uses, so that its rates are held against the right peak.
//
// Stands in for a query of the library itself: once that exists, active_target.cc goes and this
// header forwards to it.
#pragma once

#include <string>

namespace headwise::bench {

// A name that yardsticks.h knows: "avx512", "avx2", "sse4", "neon" or "generic". The environment
// variable HEADWISE_TARGET forces one; throws std::invalid_argument if the CPU lacks it.
std::string active_target();

}  // namespace headwise::bench
