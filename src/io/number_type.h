// The kinds of numbers that files hold and Headwise reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace headwise::io {

enum class NumberType : std::uint8_t {
  Bool,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F16,
  BF16,
  F32,
  F64
};

std::size_t bytes_of(NumberType type);
std::string_view name_of(NumberType type);  // in safetensors' words: "F32"
std::optional<NumberType> number_type_named(std::string_view name);

}  // namespace headwise::io
