// Comparisons of tensors: the same bits, the same numbers, close numbers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "headwise/attention.h"
#include "headwise/layer.h"
#include "headwise/tensor.h"
#include "headwise/weights.h"

namespace headwise::test_support {

// Same shape and same bits; NaNs count as equal only if their bits are.
template <typename T>
::testing::AssertionResult same_bits(const BasicTensor<T>& a, const BasicTensor<T>& b) {
  if (!(a.shape() == b.shape())) {
    return ::testing::AssertionFailure()
           << "shapes " << a.shape().to_string() << " and " << b.shape().to_string();
  }
  const auto x = a.values();
  const auto y = b.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::memcmp(&x[i], &y[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "of shape " << a.shape().to_string() << ", element "
                                           << i << " differs: " << x[i] << " and " << y[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const std::vector<Tensor>& a,
                                            const std::vector<Tensor>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " tensors";
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (auto same = same_bits(a[i], b[i]); !same) return same << " (tensor " << i << ")";
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const AttentionWeights& a, const AttentionWeights& b) {
  for (const WeightField& field : weight_fields()) {
    if (auto same = same_bits(a.*field.tensor, b.*field.tensor); !same) {
      return same << " (" << field.name << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const AttentionResult& a, const AttentionResult& b) {
  if (auto same = same_bits(a.output, b.output); !same) return same << " (output)";
  if (auto same = same_bits(a.log_sum_exp, b.log_sum_exp); !same) return same << " (log_sum_exp)";
  if (auto same = same_bits(a.weights, b.weights); !same) return same << " (weights)";
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const AttentionGradients& a,
                                            const AttentionGradients& b) {
  if (auto same = same_bits(a.query, b.query); !same) return same << " (query gradient)";
  if (auto same = same_bits(a.key, b.key); !same) return same << " (key gradient)";
  if (auto same = same_bits(a.value, b.value); !same) return same << " (value gradient)";
  if (auto same = same_bits(a.bias, b.bias); !same) return same << " (bias gradient)";
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const LayerGradients& a, const LayerGradients& b) {
  if (auto same = same_bits(a.query, b.query); !same) return same << " (query gradient)";
  if (auto same = same_bits(a.key, b.key); !same) return same << " (key gradient)";
  if (auto same = same_bits(a.value, b.value); !same) return same << " (value gradient)";
  if (auto same = same_bits(a.weights, b.weights); !same) return same << " (weight gradient)";
  if (auto same = same_bits(a.bias, b.bias); !same) return same << " (bias gradient)";
  return ::testing::AssertionSuccess();
}

// Same shape, and no element further apart than `tolerance`; a NaN is far from everything.
inline ::testing::AssertionResult close_to(const Tensor& a, const Tensor& b, double tolerance) {
  if (!(a.shape() == b.shape())) {
    return ::testing::AssertionFailure()
           << "shapes " << a.shape().to_string() << " and " << b.shape().to_string();
  }
  const auto x = a.values();
  const auto y = b.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;  // infinities of the same sign
    if (!(std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])) <= tolerance)) {
      return ::testing::AssertionFailure() << "of shape " << a.shape().to_string() << ", element "
                                           << i << ": " << x[i] << " and " << y[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline bool all_finite(const Tensor& tensor) {
  for (const float x : tensor.values()) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

inline bool all_equal(const Tensor& tensor, float value) {
  for (const float x : tensor.values()) {
    if (!(x == value)) return false;
  }
  return true;
}

}  // namespace headwise::test_support
