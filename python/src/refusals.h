// Calls that fit no signature: a name that the function does not have, an argument left out, None, an
// object of another class or a number out of range.
#pragma once

#include "casters.h"

namespace headwise::python {

// Gives every function of the module, of its classes and of the modules in it the words that all other
// errors have. nanobind would answer with a list of signatures, and has no way to say something else.
void refuse_in_our_words(nb::module_& module);

}  // namespace headwise::python
