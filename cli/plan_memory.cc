#include "plan.h"

namespace headwise::cli {

MemoryCost memory_with_training(const LayerCost& cost) {
  LayerCall call = cost.call;
  call.training = true;
  const MemoryCost training = layer_cost(cost.config, call).memory;
  MemoryCost memory = cost.memory;
  memory.saved = training.saved;
  memory.gradients = training.gradients;
  memory.backward_buffers = training.backward_buffers;
  return memory;
}

}  // namespace headwise::cli
