// nanobind, with the conversions that any file here may use: a file that cast a std::string without
// them would compile, and break the others.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace headwise::python {

namespace nb = nanobind;

}  // namespace headwise::python
