// Types of HDF5 in Headwise's words. For the isolated child only.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5_handle.h"
#include "io/number_type.h"

namespace headwise::io {

struct Hdf5Type {
  std::string dtype;  // "F32", or what it is instead of a number: "STRING"
  bool big_endian = false;
};

// HDF5 spells types out, bit by bit; these are the ones that Headwise reads.
class Hdf5Types {
 public:
  Hdf5Types();
  // Keras stores bfloat16 as opaque pairs of bytes, and says so in a word beside them.
  [[nodiscard]] Hdf5Type describe(hid_t type, bool says_bfloat16) const;

 private:
  struct Known {
    NumberType type;
    Hdf5Handle little_endian;
  };
  void add(NumberType type, Hdf5Handle little_endian);

  std::vector<Known> known_;
};

}  // namespace headwise::io
