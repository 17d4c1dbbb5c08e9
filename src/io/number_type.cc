#include "io/number_type.h"

#include <array>

namespace headwise::io {
namespace {

struct Named {
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enumeration.
constexpr std::array<Named, 13> kTypes = {{{"BOOL", 1},
                                           {"I8", 1},
                                           {"U8", 1},
                                           {"I16", 2},
                                           {"U16", 2},
                                           {"I32", 4},
                                           {"U32", 4},
                                           {"I64", 8},
                                           {"U64", 8},
                                           {"F16", 2},
                                           {"BF16", 2},
                                           {"F32", 4},
                                           {"F64", 8}}};

}  // namespace

std::size_t bytes_of(NumberType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

std::string_view name_of(NumberType type) { return kTypes[static_cast<std::size_t>(type)].name; }

std::optional<NumberType> number_type_named(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<NumberType>(i);
  }
  return std::nullopt;
}

}  // namespace headwise::io
