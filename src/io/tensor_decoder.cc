#include "io/tensor_decoder.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "io/half.h"
#include "io/malformed.h"

namespace headwise::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read as little-endian");

AnyTensor zeros(NumberType type, const Shape& shape) {
  switch (type) {
    case NumberType::Bool:
      return BoolTensor(shape);
    case NumberType::F16:
    case NumberType::BF16:
    case NumberType::F32:
    case NumberType::F64:
      return Tensor(shape);
    default:
      return IndexTensor(shape);
  }
}

template <typename Stored>
Stored load(const std::byte* bytes, bool big_endian) {
  std::byte ordered[sizeof(Stored)];
  std::copy_n(bytes, sizeof(Stored), ordered);
  if (big_endian) std::reverse(ordered, ordered + sizeof(Stored));
  return std::bit_cast<Stored>(ordered);
}

// Appends numbers of type Stored to `to`; `convert` makes each what the tensor holds.
template <typename Stored, typename T, typename Convert>
void decode(std::span<const std::byte> bytes, bool big_endian, T* to, Convert convert) {
  const std::size_t count = bytes.size() / sizeof(Stored);
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = convert(load<Stored>(bytes.data() + i * sizeof(Stored), big_endian));
  }
}

template <typename Stored>
void decode_integers(std::span<const std::byte> bytes, bool big_endian, std::int64_t* to) {
  decode<Stored>(bytes, big_endian, to, [](Stored value) {
    if constexpr (std::same_as<Stored, std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        malformed("holds " + std::to_string(value) + ", which no signed 64-bit integer can");
      }
    }
    return static_cast<std::int64_t>(value);
  });
}

void decode_any_integers(NumberFormat format, std::span<const std::byte> bytes, std::int64_t* to) {
  const bool big = format.big_endian;
  switch (format.type) {
    case NumberType::I8:
      return decode_integers<std::int8_t>(bytes, big, to);
    case NumberType::U8:
      return decode_integers<std::uint8_t>(bytes, big, to);
    case NumberType::I16:
      return decode_integers<std::int16_t>(bytes, big, to);
    case NumberType::U16:
      return decode_integers<std::uint16_t>(bytes, big, to);
    case NumberType::I32:
      return decode_integers<std::int32_t>(bytes, big, to);
    case NumberType::U32:
      return decode_integers<std::uint32_t>(bytes, big, to);
    case NumberType::U64:
      return decode_integers<std::uint64_t>(bytes, big, to);
    default:
      return decode_integers<std::int64_t>(bytes, big, to);
  }
}

void decode_floats(NumberFormat format, std::span<const std::byte> bytes, float* to) {
  const bool big = format.big_endian;
  switch (format.type) {
    case NumberType::F16:
      return decode<std::uint16_t>(bytes, big, to, float_from_half);
    case NumberType::BF16:
      return decode<std::uint16_t>(bytes, big, to, float_from_bfloat);
    case NumberType::F64:
      return decode<double>(bytes, big, to, [](double value) { return static_cast<float>(value); });
    default:
      if (!big) {
        std::memcpy(to, bytes.data(), bytes.size());  // the common case, at the speed of memory
        return;
      }
      return decode<std::uint32_t>(bytes, big, to,
                                   [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
  }
}

Strides column_major_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t step = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    if (shape[axis] != 0) step *= shape[axis];  // cannot overflow: the shape was checked
  }
  return strides;
}

}  // namespace

TensorDecoder::TensorDecoder(const NumberFormat& format, const Shape& shape)
    : format_(format), shape_(shape), tensor_(zeros(format.type, shape)) {}

void TensorDecoder::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::size_t at = std::exchange(count_, count_ + bytes.size() / bytes_of(format_.type));
  if (auto* floats = std::get_if<Tensor>(&tensor_)) {
    decode_floats(format_, bytes, floats->data() + at);
  } else if (auto* integers = std::get_if<IndexTensor>(&tensor_)) {
    decode_any_integers(format_, bytes, integers->data() + at);
  } else {
    decode<std::uint8_t>(bytes, false, std::get<BoolTensor>(tensor_).data() + at,
                         [](std::uint8_t value) { return value != 0; });
  }
}

AnyTensor TensorDecoder::finish() && {
  if (!format_.column_major || shape_.rank() < 2) return std::move(tensor_);
  return std::visit(
      [&](const auto& tensor) -> AnyTensor {
        using T = typename std::decay_t<decltype(tensor.view())>::Element;
        return BasicTensor<T>::copy_of(
            TensorView<const T>(tensor.data(), shape_, column_major_strides(shape_)));
      },
      tensor_);
}

}  // namespace headwise::io
