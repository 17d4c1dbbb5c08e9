#include "layouts/bystanders.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace headwise::layouts {

namespace {

// The first part of the rest: what a block keeps beside its projections if it has no module for them.
constexpr std::array<std::string_view, 13> kOfTheBlock = {
    "mlp",     "ffn",   "feed_forward", "fc1", "fc2", "linear1", "linear2",
    "dropout", "norm1", "norm2",        "ln1", "ln2", "norm3"};

// Any part: the block's norm before or behind the layer, tables of rotary positions, states of random
// generators, numbers of places, and what GPT-2's kin put in place of masked scores.
constexpr std::array<std::string_view, 9> kAnywhere = {
    "LayerNorm",      "ln",   "self_attn_layer_norm", "rotary_emb", "rotary_embeddings",
    "seed_generator", "rngs", "position_ids",         "masked_bias"};

template <std::size_t count>
bool is_one_of(std::string_view word, const std::array<std::string_view, count>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool is_bystander(std::string_view rest, int rank) {
  // (1, 1, T, T): the causal mask of GPT-2's kin, under the name of a bias.
  constexpr int kMask = 4;
  if (rest == "bias" && rank == kMask) return true;
  if (is_one_of(rest.substr(0, rest.find_first_of("./")), kOfTheBlock)) return true;
  while (true) {
    const std::size_t end = rest.find_first_of("./");
    if (is_one_of(rest.substr(0, end), kAnywhere)) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace headwise::layouts
