#include "io/hdf5_type.h"

#include <cstddef>
#include <utility>

namespace headwise::io {
namespace {

// Widths in bits; the fraction lies lowest, then the exponent, then the sign.
struct FloatLayout {
  size_t exponent;
  size_t fraction;
  size_t offset;  // of the exponent
};

Hdf5Handle make_float(const FloatLayout& layout) {
  Hdf5Handle type = opened(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "");
  const size_t sign = layout.exponent + layout.fraction;
  if (H5Tset_fields(type.get(), sign, layout.fraction, layout.exponent, 0, layout.fraction) < 0 ||
      H5Tset_size(type.get(), (sign + 1) / 8) < 0 || H5Tset_ebias(type.get(), layout.offset) < 0) {
    fail_hdf5("", "libhdf5 refuses a type of 16 bits");
  }
  return type;
}

// As h5py stores numpy's truth values.
Hdf5Handle make_bool() {
  Hdf5Handle type = opened(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "");
  constexpr signed char kFalse = 0;
  constexpr signed char kTrue = 1;
  if (H5Tenum_insert(type.get(), "FALSE", &kFalse) < 0 ||
      H5Tenum_insert(type.get(), "TRUE", &kTrue) < 0) {
    fail_hdf5("", "libhdf5 refuses a type of truth values");
  }
  return type;
}

std::string class_name(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return "INTEGER";
    case H5T_FLOAT:
      return "FLOAT";
    case H5T_STRING:
      return "STRING";
    case H5T_BITFIELD:
      return "BITFIELD";
    case H5T_OPAQUE:
      return "OPAQUE";
    case H5T_COMPOUND:
      return "COMPOUND";
    case H5T_ENUM:
      return "ENUM";
    case H5T_VLEN:
      return "VLEN";
    case H5T_ARRAY:
      return "ARRAY";
    default:
      return "OTHER";
  }
}

}  // namespace

Hdf5Types::Hdf5Types() {
  const auto copy = [](hid_t type) { return opened(H5Tcopy(type), H5Tclose, ""); };
  add(NumberType::F32, copy(H5T_IEEE_F32LE));
  add(NumberType::F64, copy(H5T_IEEE_F64LE));
  add(NumberType::F16, make_float({.exponent = 5, .fraction = 10, .offset = 15}));
  add(NumberType::BF16, make_float({.exponent = 8, .fraction = 7, .offset = 127}));
  add(NumberType::Bool, make_bool());
  add(NumberType::I8, copy(H5T_STD_I8LE));
  add(NumberType::U8, copy(H5T_STD_U8LE));
  add(NumberType::I16, copy(H5T_STD_I16LE));
  add(NumberType::U16, copy(H5T_STD_U16LE));
  add(NumberType::I32, copy(H5T_STD_I32LE));
  add(NumberType::U32, copy(H5T_STD_U32LE));
  add(NumberType::I64, copy(H5T_STD_I64LE));
  add(NumberType::U64, copy(H5T_STD_U64LE));
}

void Hdf5Types::add(NumberType type, Hdf5Handle little_endian) {
  known_.push_back({type, std::move(little_endian)});
}

Hdf5Type Hdf5Types::describe(hid_t type, bool says_bfloat16) const {
  if (says_bfloat16 && H5Tget_class(type) == H5T_OPAQUE && H5Tget_size(type) == 2) {
    return {std::string(name_of(NumberType::BF16)), false};
  }
  for (const Known& known : known_) {
    if (H5Tequal(type, known.little_endian.get()) > 0) {
      return {std::string(name_of(known.type)), false};
    }
    const Hdf5Handle swapped = opened(H5Tcopy(known.little_endian.get()), H5Tclose, "");
    if (H5Tset_order(swapped.get(), H5T_ORDER_BE) >= 0 && H5Tequal(type, swapped.get()) > 0) {
      return {std::string(name_of(known.type)), true};
    }
  }
  return {class_name(type), false};
}

}  // namespace headwise::io
