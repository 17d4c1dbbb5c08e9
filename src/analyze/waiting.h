// Tells the machine's neighbours from the library's own slowness.
#pragma once

namespace headwise::analyze {

// Seconds that the threads of this process were ready to run and had no CPU, since they started. 0
// where the kernel does not tell.
double waiting_seconds();

}  // namespace headwise::analyze
