// headwise._files, and the same without libzip and libhdf5 for machines that lack one of them:
// headwise._files_plain. headwise/files.py takes the first that loads.
#include "files.h"
#include "refusals.h"

NB_MODULE(HEADWISE_MODULE_NAME, module) {
  nanobind::set_leak_warnings(false);
  headwise::python::bind_files(module);
  headwise::python::refuse_in_our_words(module);
}
