// What a fuzzer insists on. A broken promise ends the program, which is what libFuzzer looks for.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <variant>

#include "headwise/io.h"

namespace headwise::fuzz {

inline void require(bool condition, const char* promise) {
  if (condition) return;
  (void)std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

template <typename T>
bool same_bits(const BasicTensor<T>& a, const BasicTensor<T>& b) {
  const auto x = std::as_bytes(a.values());
  const auto y = std::as_bytes(b.values());
  return a.shape() == b.shape() && (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
}

inline bool same_bits(const AnyTensor& a, const AnyTensor& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) { return same_bits(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
}

}  // namespace headwise::fuzz
