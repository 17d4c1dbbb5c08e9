// headwise_linear and headwise_linear_backward: rows (M, in), kernel (in, out), bias (out); and
// headwise_sigmoid of any shape.
#include "headwise/linear.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "handlers.h"

namespace headwise::jax {

namespace {

ffi::Error forward(Floats input, Floats kernel, ffi::RemainingArgs bias, FloatsResult output) {
  return carry_out([&](Context* context) {
    const Lanes lanes(output->dimensions(), 2);
    const auto x = operand(input, 2, lanes);
    const auto w = operand(kernel, 2, lanes);
    const auto y = operand(output, 2, lanes);
    std::optional<Operand<const float>> b;
    if (bias.size() > 0) b = operand(value_of(bias.get<Floats>(0)), 1, lanes);
    const bool one_map = w.shared() && (!b || b->shared());
    for_each_share(lanes, one_map && x.full(), [&](const Share& share) {
      linear(x.view(share), w.view(share), b ? b->view(share) : ConstView(), y.view(share),
             context);
    });
  });
}

ffi::Error backward(Floats input, Floats kernel, Floats output_gradient,
                    FloatsResult input_gradient, FloatsResult kernel_gradient,
                    FloatsResult bias_gradient) {
  return carry_out([&](Context* context) {
    const Lanes lanes(input_gradient->dimensions(), 2);
    const auto x = operand(input, 2, lanes);
    const auto w = operand(kernel, 2, lanes);
    const auto dy = operand(output_gradient, 2, lanes);
    // A kernel's gradient sums over the rows of one lane, so lanes cannot be joined.
    for_each_share(lanes, false, [&](const Share& share) {
      const LinearGradients gradients =
          linear_backward(x.view(share), w.view(share), dy.view(share), context);
      copy_to(operand(input_gradient, 2, lanes), share, gradients.input);
      copy_to(operand(kernel_gradient, 2, lanes), share, gradients.kernel);
      copy_to(operand(bias_gradient, 1, lanes), share, gradients.bias);
    });
  });
}

ffi::Error gate(Floats input, FloatsResult output) {
  return carry_out([&](Context* context) {
    const auto count = static_cast<std::int64_t>(input.element_count());
    const Tensor made = sigmoid(ConstView(input.typed_data(), Shape{count}), context);
    std::copy_n(made.data(), count, output->typed_data());
  });
}

}  // namespace

XLA_FFI_Error* linear_handler(XLA_FFI_CallFrame* frame) {
  static const auto handler =
      ffi::Ffi::Bind().Arg<Floats>().Arg<Floats>().RemainingArgs().Ret<Floats>().To(forward);
  return handler->Call(frame);
}

XLA_FFI_Error* linear_backward_handler(XLA_FFI_CallFrame* frame) {
  static const auto handler = ffi::Ffi::Bind()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .To(backward);
  return handler->Call(frame);
}

XLA_FFI_Error* sigmoid_handler(XLA_FFI_CallFrame* frame) {
  static const auto handler = ffi::Ffi::Bind().Arg<Floats>().Ret<Floats>().To(gate);
  return handler->Call(frame);
}

}  // namespace headwise::jax
