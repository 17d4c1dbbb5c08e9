// What the module headwise._files holds: the library's files, apart from headwise._core because of the
// libraries that they need.
#pragma once

#include "casters.h"

namespace headwise::python {

void bind_files(nb::module_& module);

}  // namespace headwise::python
