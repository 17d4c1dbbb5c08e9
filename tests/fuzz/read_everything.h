// Reads a whole file as a user might, and checks what every reader promises.
#pragma once

#include <optional>
#include <utility>

#include "fuzz/require.h"
#include "io/malformed.h"
#include "io/reader.h"

namespace headwise::fuzz {

// The tensor at `index`; nullopt if its numbers are refused.
inline std::optional<AnyTensor> read_tensor(const io::Reader& reader, std::size_t index) {
  try {
    AnyTensor tensor = reader.read(index);
    const Shape& shape =
        std::visit([](const auto& x) -> const Shape& { return x.shape(); }, tensor);
    require(shape == reader.tensors()[index].shape, "a tensor has the shape that was listed");
    require(same_bits(tensor, reader.read(index)), "a tensor reads the same twice");
    return tensor;
  } catch (const io::Malformed&) {
    return std::nullopt;
  }
}

// All floating-point tensors that can be read.
inline TensorMap read_everything(const io::Reader& reader) {
  TensorMap floats;
  const auto& list = reader.tensors();
  for (std::size_t i = 0; i < list.size(); ++i) {
    require(i == 0 || list[i - 1].name < list[i].name, "names are sorted and unique");
    std::optional<AnyTensor> tensor = read_tensor(reader, i);
    if (!tensor) continue;
    if (auto* numbers = std::get_if<Tensor>(&*tensor)) floats[list[i].name] = std::move(*numbers);
  }
  return floats;
}

// `reader` has these tensors and no others.
inline void require_same(const io::Reader& reader, const TensorMap& tensors) {
  require(reader.tensors().size() == tensors.size(), "what was written is listed");
  const TensorMap read = read_everything(reader);
  for (const auto& [name, tensor] : tensors) {
    const auto found = read.find(name);
    require(found != read.end(), "what was written can be read");
    require(same_bits(found->second, tensor), "what was written reads the same");
  }
}

}  // namespace headwise::fuzz
