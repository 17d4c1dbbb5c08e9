#include "masks/dense_array.h"

#include <array>
#include <string>

#include "base/check.h"

namespace headwise::masks {

namespace {

constexpr int kSequenceAxis = 0;
constexpr int kHeadAxis = 1;
constexpr int kQueryAxis = 2;
constexpr int kKeyAxis = 3;

struct AxisList {
  std::array<int, 4> axes{};
  int rank = 0;
};

AxisList axis_list(Axes axes) {
  switch (axes) {
    case Axes::QueryKey:
      return {{kQueryAxis, kKeyAxis}, 2};
    case Axes::BatchQueryKey:
      return {{kSequenceAxis, kQueryAxis, kKeyAxis}, 3};
    case Axes::HeadQueryKey:
      return {{kHeadAxis, kQueryAxis, kKeyAxis}, 3};
    case Axes::BatchKey:
      return {{kSequenceAxis, kKeyAxis}, 2};
    case Axes::BatchQuery:
      return {{kSequenceAxis, kQueryAxis}, 2};
    case Axes::BatchHeadQueryKey:
      break;
  }
  return {{kSequenceAxis, kHeadAxis, kQueryAxis, kKeyAxis}, 4};
}

Axes default_axes(std::string_view function, std::string_view argument, const Shape& shape) {
  if (shape.rank() == 2) return Axes::QueryKey;
  if (shape.rank() == 4) return Axes::BatchHeadQueryKey;
  if (shape.rank() == 3) {
    base::fail(function, argument, "Axes::BatchQueryKey or Axes::HeadQueryKey with rank 3",
               "shape " + shape.to_string() + " without axes");
  }
  base::fail(function, argument, "rank 2, 3 or 4", "shape " + shape.to_string());
}

}  // namespace

template <typename T>
DenseArray<T> resolve_dense(std::string_view function, std::string_view argument,
                            const TensorView<T>& values, std::optional<Axes> axes,
                            const ScoreShape& shape) {
  if (!values.present()) base::fail(function, argument, "an array", "none");
  const AxisList list = axis_list(axes ? *axes : default_axes(function, argument, values.shape()));
  const std::array<std::int64_t, 4> extents = {shape.packed ? 1 : shape.batch(), shape.heads,
                                               shape.query_rows, shape.own_keys};
  std::array<std::int64_t, 4> strides{};
  bool fits = values.rank() == list.rank;
  std::string expected = "(";
  for (int i = 0; i < list.rank; ++i) {
    const auto axis = static_cast<std::size_t>(list.axes[static_cast<std::size_t>(i)]);
    expected += (i > 0 ? ", " : "") + std::to_string(extents[axis]);
    if (!fits) continue;
    const std::int64_t extent = values.extent(i);
    fits = extent == extents[axis] || extent == 1;
    strides[axis] = extent == 1 ? 0 : values.stride(i);
  }
  if (!fits) {
    base::fail(function, argument, "shape " + expected + ") or 1 on any axis",
               values.shape().to_string());
  }
  return {values.data(), strides[kSequenceAxis], strides[kHeadAxis], strides[kQueryAxis],
          strides[kKeyAxis]};
}

template DenseArray<const bool> resolve_dense(std::string_view, std::string_view,
                                              const TensorView<const bool>&, std::optional<Axes>,
                                              const ScoreShape&);
template DenseArray<const float> resolve_dense(std::string_view, std::string_view,
                                               const TensorView<const float>&, std::optional<Axes>,
                                               const ScoreShape&);
template DenseArray<float> resolve_dense(std::string_view, std::string_view,
                                         const TensorView<float>&, std::optional<Axes>,
                                         const ScoreShape&);

}  // namespace headwise::masks
