#include "io/hdf5_handle.h"

#include <string>

#include "io/malformed.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

// The innermost error comes first: it says what is wrong, those around it only who had asked.
herr_t take_first(unsigned /*depth*/, const H5E_error2_t* error, void* text) {
  auto& first = *static_cast<std::string*>(text);
  if (first.empty() && error->desc != nullptr) first = error->desc;
  return 0;
}

}  // namespace

void prepare_libhdf5() {
  (void)H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  (void)H5PLset_loading_state(0);
}

void fail_hdf5(const std::string& path, const std::string& problem) {
  std::string reason;
  (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  std::string message = path.empty() ? "" : quoted(path) + ": ";
  message += problem;
  if (!reason.empty()) message += " (" + reason + ")";
  malformed(message);
}

}  // namespace headwise::io
