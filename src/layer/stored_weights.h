// How the files of other libraries hold a layer's weights: under which names, in which order of axes.
//
//   AttentionWeights ──pack──► a library's tensor ──unpack──► AttentionWeights
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/config.h"
#include "headwise/tensor.h"
#include "headwise/weights.h"

namespace headwise::layer {

enum class Axes {
  Flat,    // as AttentionWeights has it: (in, heads·size)
  ByHead,  // heads as an axis: (in, heads, size), (heads, size, out); the same numbers in the same
           // order, so that a new shape is all it takes
  OutIn,   // a kernel as PyTorch's Linear has it: (out, in)
  Row      // (1, 1, size)
};

struct StoredTensor {
  std::string name;  // in the library's file: "out_proj.weight"
  // Which weight it is, in weight_fields()' words; "in/kernel" and "in/bias" are those of query, key
  // and value side by side.
  std::string role;
  Axes axes = Axes::Flat;
};

// The weights in it: one, or three.
std::vector<const WeightField*> fields_of(const StoredTensor& stored);

// Whether a layer of this configuration has these weights, in a shape that can be packed so.
bool is_stored(const StoredTensor& stored, const AttentionConfig& config);

Shape stored_shape(const StoredTensor& stored, const AttentionConfig& config);

// An output shape may have several axes where stored_shape() has one.
bool fits(const StoredTensor& stored, const Shape& shape, const AttentionConfig& config);

// The shape must fit. Only numbers move: packing and unpacking give the same bits again.
void unpack(const StoredTensor& stored, Tensor tensor, const AttentionConfig& config,
            AttentionWeights& weights);
Tensor pack(const StoredTensor& stored, const AttentionConfig& config,
            const AttentionWeights& weights);

// What each library writes, in its own words.
const std::vector<StoredTensor>& keras_tensors();
const std::vector<StoredTensor>& flax_tensors();
const std::vector<StoredTensor>& torch_tensors();
const std::vector<StoredTensor>& d2l_tensors();

// Four of PyTorch's Linear layers: name.weight (out, in) and name.bias.
struct LinearNames {
  const char* query;
  const char* key;
  const char* value;
  const char* output;
};
std::vector<StoredTensor> linear_tensors(const LinearNames& names);

}  // namespace headwise::layer
