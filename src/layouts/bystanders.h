// Tensors that stand below a layer's name and change nothing of what it computes.
#pragma once

#include <string_view>

namespace headwise::layouts {

// By the rest of the name behind the layer's: "output.LayerNorm.weight", "rotary_emb.inv_freq".
bool is_bystander(std::string_view rest, int rank);

}  // namespace headwise::layouts
