// Drawing recipes, and printing them.
#include <ostream>
#include <sstream>

#include "support/random_case.h"

namespace headwise::test_support {
namespace {

// Full range at any RapidCheck size: the sizes of a case are balanced below instead.
template <typename T>
rc::Gen<T> within(T low, T high) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(low, high + 1));
}

// True in one of `times` draws; shrinks to false.
bool rarely(int times) { return *within(0, times - 1) == times - 1; }

template <typename Enum>
Enum one_of(Enum last) {
  return static_cast<Enum>(*within(0, static_cast<int>(last)));
}

std::int64_t small_size() {
  const int kind = *within(0, 19);
  if (kind == 0) return *within<std::int64_t>(0, 1);
  if (kind < 4) return 1;
  if (kind < 14) return *within<std::int64_t>(1, 9);
  return *within<std::int64_t>(1, 40);
}

// The library works on blocks of keys and of query rows; these are beyond one of them.
std::int64_t key_count() {
  static const std::vector<std::int64_t> large = {255, 256, 257, 300, 513, 520};
  return rarely(8) ? *rc::gen::elementOf(large) : small_size();
}

std::int64_t query_count() {
  static const std::vector<std::int64_t> large = {63, 64, 65, 70, 130};
  return rarely(8) ? *rc::gen::elementOf(large) : small_size();
}

void draw_sizes(Recipe& r) {
  r.batch_kind = one_of(BatchKind::Packed);
  r.batch = rarely(20) ? 0 : *within<std::int64_t>(1, 4);
  r.queries = query_count();
  r.keys = key_count();
  r.kv_heads = *within<std::int64_t>(1, 3);
  r.group = *within<std::int64_t>(1, 3);
  r.key_dim = *within<std::int64_t>(1, rarely(4) ? 70 : 20);
  r.value_dim = *within<std::int64_t>(1, rarely(4) ? 70 : 20);
  // The oracle visits every entry of T×S several times: keep a case within some 10 ms.
  constexpr std::int64_t most_entries = 60'000;
  const auto entries = [&] { return r.batch * r.kv_heads * r.group * r.queries * r.keys; };
  if (entries() > most_entries) r.batch = 1;
  if (entries() > most_entries) r.kv_heads = 1;
  if (entries() > most_entries) r.group = 1;
}

void draw_masks(Recipe& r) {
  r.window = one_of(WindowKind::Window);
  r.positions = one_of(PositionKind::Offsets);
  r.key_lengths = rarely(2) ? *within(0, 3) : 0;
  r.query_lengths = rarely(4);
  r.keeps = rarely(2) ? *within(1, 2) : 0;
  r.segments = rarely(4) ? *within(1, 2) : 0;
  r.biases = rarely(2) ? *within(1, 2) : 0;
  r.infinite_bias = rarely(2);
}

void draw_options(Recipe& r) {
  static const std::vector<float> deviations = {1.0F, 0.1F, 3.0F};
  static const std::vector<float> dropouts = {0.1F, 0.5F, 0.9F};
  r.deviation = *rc::gen::elementOf(deviations);
  r.odd_strides = rarely(2);
  r.own_out = rarely(4);
  r.threads = *within(0, 3);
  r.scale = rarely(4);
  r.softcap = rarely(4);
  r.dropout = rarely(3) ? *rc::gen::elementOf(dropouts) : 0.0F;
  r.sequence_ids = rarely(4);
  r.matrix = one_of(MatrixKind::Selected);
  r.top_k = rarely(3) ? *within<std::int64_t>(1, 9) : 0;
  r.statistics = rarely(3);
  r.tail = rarely(4) ? *within<std::int64_t>(1, 2) : 0;
}

void draw_layer(Recipe& r) {
  r.inputs = rarely(2) ? one_of(InputKind::AllSame) : InputKind::Three;
  r.query_features = *within<std::int64_t>(1, 30);
  r.key_features = *within<std::int64_t>(1, 30);
  r.value_features = *within<std::int64_t>(1, 30);
  r.output_features = *within<std::int64_t>(1, 30);
  r.use_bias = rarely(2);
  r.output_bias = rarely(2);
  r.gate = rarely(3);
  r.norm = rarely(3) ? *within(1, 2) : 0;
  r.add_bias_kv = rarely(4);
  r.add_zero_attn = rarely(4);
}

}  // namespace

rc::Gen<Recipe> recipes() {
  return rc::gen::exec([] {
    Recipe recipe;
    recipe.seed =
        *rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
    draw_sizes(recipe);
    draw_masks(recipe);
    draw_options(recipe);
    draw_layer(recipe);
    return recipe;
  });
}

Recipe random_recipe(std::uint64_t seed) {
  return recipes()(rc::Random(seed), rc::kNominalSize).value();
}

std::string describe(const Recipe& r) {
  static const char* const batch_names[] = {"padded", "single", "packed"};
  static const char* const window_names[] = {"", " causal", " window"};
  static const char* const position_names[] = {"", " top-left", " bottom-right", " offset",
                                               " offsets"};
  static const char* const matrix_names[] = {"", " weights:all", " weights:averaged",
                                             " weights:selected"};
  static const char* const input_names[] = {"three inputs", "key = value", "one input"};
  static const char* const norm_names[] = {"", " rms-norm", " layer-norm"};
  std::ostringstream s;
  const auto flag = [&](bool on, const char* name) { s << (on ? " " : "") << (on ? name : ""); };
  const auto count = [&](auto number, const char* name) {
    if (number != 0) s << ' ' << name << '=' << number;
  };
  s << "seed=" << r.seed << ' ' << batch_names[static_cast<int>(r.batch_kind)] << " B=" << r.batch
    << " T=" << r.queries << " S=" << r.keys << " Hq=" << r.kv_heads * r.group
    << " Hkv=" << r.kv_heads << " dk=" << r.key_dim << " dv=" << r.value_dim
    << " deviation=" << r.deviation << window_names[static_cast<int>(r.window)]
    << position_names[static_cast<int>(r.positions)];
  count(r.key_lengths, "key_lengths");
  flag(r.query_lengths, "query_lengths");
  count(r.keeps, "keeps");
  count(r.segments, "segments");
  count(r.biases, "biases");
  flag(r.infinite_bias && r.biases > 0, "with -inf");
  flag(r.scale, "scale");
  flag(r.softcap, "softcap");
  count(r.dropout, "dropout");
  flag(r.sequence_ids, "sequence_ids");
  s << matrix_names[static_cast<int>(r.matrix)];
  count(r.top_k, "top_k");
  flag(r.statistics, "statistics");
  flag(r.odd_strides, "odd_strides");
  flag(r.own_out, "own_out");
  count(r.threads, "threads");
  count(r.tail, "tail");
  s << " | layer: " << input_names[static_cast<int>(r.inputs)] << " Dq=" << r.query_features
    << " Dk=" << r.key_features << " Dv=" << r.value_features << " Do=" << r.output_features;
  flag(r.use_bias, "use_bias");
  flag(r.output_bias, "output_bias");
  flag(r.gate, "gate");
  s << norm_names[r.norm];
  flag(r.add_bias_kv, "add_bias_kv");
  flag(r.add_zero_attn, "add_zero_attn");
  return s.str();
}

std::ostream& operator<<(std::ostream& stream, const Recipe& recipe) {
  return stream << describe(recipe);
}

}  // namespace headwise::test_support
