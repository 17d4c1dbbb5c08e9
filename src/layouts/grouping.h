// Names → groups: what a file's tensors have in common.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "headwise/layouts.h"
#include "layouts/dialects.h"

namespace headwise::layouts {

struct Member {
  const layer::StoredTensor* stored;  // of the group's dialect
  const NamedShape* tensor;
};

// Tensors whose names are a common front followed by names of one dialect, and whose ranks fit.
struct Group {
  const Dialect* dialect;
  std::string_view front;  // without the separator behind it
  std::vector<Member> members;
  // Others below the same front, which may change what the layer computes: their names are not of the
  // dialect, or their ranks do not fit.
  std::vector<const NamedShape*> strays = {};

  [[nodiscard]] const Member* find(std::string_view role) const;  // the first of that role
  [[nodiscard]] int kernels() const;  // how many of query, key, value and output it has
  [[nodiscard]] std::string_view rest_of(const NamedShape& tensor) const;  // behind the front
};

bool rank_fits(const layer::StoredTensor& stored, int rank);

// Every group that may be an attention layer: with all four kernels, or with three and no other
// group to explain them. No tensor is in two of them; a stray belongs to the longest front.
std::vector<Group> group_by_name(std::span<const NamedShape> tensors);

}  // namespace headwise::layouts
