#include "call.h"

#include <cxxabi.h>
#include <unistd.h>

namespace headwise::python {

// Before Python 3.14, taking the GIL for a thread that outlives the interpreter ends the thread by an
// unwinding that nanobind's functions do not let through: the process would abort. So such a
// thread waits for the end of the process, as it does in later versions.
void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    for (;;) (void)pause();
  }
}

}  // namespace headwise::python
