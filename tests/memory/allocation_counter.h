// Counts what goes through operator new in this program, and can make one allocation fail.
// Linking allocation_counter.cc replaces every form of operator new and delete.
#pragma once

#include <cstdint>

namespace headwise::test_support {

// Bytes that are allocated now, and the most there were since reset_peak().
std::int64_t live_bytes();
std::int64_t peak_bytes();
void reset_peak();

// Allocations since the program began.
std::int64_t allocation_count();

// While it lives, the n-th allocation from its making on (the first is 1) is refused, on whatever
// thread it happens; the others go through. One at a time.
class FailNthAllocation {
 public:
  explicit FailNthAllocation(std::int64_t n);
  ~FailNthAllocation();
  FailNthAllocation(const FailNthAllocation&) = delete;
  FailNthAllocation& operator=(const FailNthAllocation&) = delete;

  [[nodiscard]] static bool fired();  // also after its end, until the next is made
};

}  // namespace headwise::test_support
