// Handlers of XLA's foreign function interface, and what they have in common.
#pragma once

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "contexts.h"
#include "headwise/error.h"
#include "lanes.h"
#include "xla/ffi/api/ffi.h"

namespace headwise::jax {

namespace ffi = ::xla::ffi;

using Floats = ffi::Buffer<ffi::F32>;
using FloatsResult = ffi::Result<Floats>;

XLA_FFI_Error* attention_handler(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* attention_backward_handler(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* linear_handler(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* linear_backward_handler(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* sigmoid_handler(XLA_FFI_CallFrame* frame);

// Carries out a call; what it throws becomes XLA's kind of error, with the same message.
template <typename Body>
ffi::Error carry_out(Body body) {
  try {
    const DefaultFloats floats;
    const BorrowedContext context;
    body(context.get());
    return ffi::Error::Success();
  } catch (const ArgumentError& error) {
    return ffi::Error::InvalidArgument(error.what());
  } catch (const std::bad_alloc& error) {
    return {ffi::ErrorCode::kResourceExhausted, error.what()};
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

template <typename T>
T value_of(const ffi::ErrorOr<T>& value) {
  if (!value.has_value()) throw std::runtime_error(value.error().message());
  return value.value();
}

template <typename T>
std::optional<T> attribute(const ffi::Dictionary& attributes, std::string_view name) {
  if (!attributes.contains(name)) return std::nullopt;
  return value_of(attributes.get<T>(name));
}

inline Operand<const float> operand(const Floats& buffer, int rank, const Lanes& lanes) {
  return {buffer.typed_data(), buffer.dimensions(), rank, lanes};
}
inline Operand<float> operand(FloatsResult& buffer, int rank, const Lanes& lanes) {
  return {buffer->typed_data(), buffer->dimensions(), rank, lanes};
}

inline void copy_to(const Operand<float>& result, const Share& share, const Tensor& tensor) {
  std::copy_n(tensor.data(), tensor.size(), result.view(share).data());
}

}  // namespace headwise::jax
