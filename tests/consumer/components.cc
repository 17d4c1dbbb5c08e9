// Every component of an installed Headwise: a layer is written, found again, counted and drawn.
#include <headwise/cost.h>
#include <headwise/headwise.h>
#include <headwise/io.h>
#include <headwise/layouts.h>
#include <headwise/spectra.h>
#include <headwise/view.h>

#include <cstdio>
#include <string>
#include <vector>

namespace hw = headwise;

int main() {
  const hw::AttentionConfig config{.num_heads = 2, .key_dim = 4, .query_features = 8};
  const hw::LayerParts parts{config, hw::AttentionWeights::glorot(config, /*seed=*/7)};
  const hw::StoredLayer stored = hw::write_layer(parts, hw::WeightLayout::Keras, "attention");
  hw::write_safetensors("components.safetensors", stored.tensors, stored.metadata);

  const hw::TensorFile file = hw::TensorFile::open("components.safetensors");
  std::vector<hw::NamedShape> tensors;
  for (const hw::TensorInfo& tensor : file.tensors())
    tensors.push_back({tensor.name, tensor.shape});
  const std::vector<hw::FoundLayer> layers = hw::find_layers(tensors, file.metadata());
  std::remove("components.safetensors");
  if (layers.size() != 1 || layers[0].layout != hw::WeightLayout::Keras) return 1;

  const hw::LayerCost cost = hw::layer_cost(config, {.batch = 1, .queries = 4});
  const hw::Tensor weights = hw::Tensor::full({2, 4, 4}, 0.25F);
  hw::AttentionPicture picture;
  picture.weights = weights;
  const std::string png = hw::draw_png(picture);
  std::printf("%s, %lld weights, a PNG of %zu bytes\n", layers[0].name.c_str(),
              static_cast<long long>(cost.weights.total), png.size());
  return cost.weights.total == 4 * 8 * 8 + 4 * 8 && png.starts_with("\x89PNG") ? 0 : 1;
}
