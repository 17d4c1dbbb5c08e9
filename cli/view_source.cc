#include "view_source.h"

#include <filesystem>
#include <numeric>
#include <utility>

#include "arrays.h"
#include "headwise/io.h"
#include "headwise/layer.h"
#include "usage_error.h"
#include "values.h"
#include "view_tokens.h"

namespace headwise::cli {

namespace {

Tensor read_weights(const ViewSourceOptions& options) {
  if (options.array.empty()) return read_floats("FILE", options.file);
  const TensorFile file = TensorFile::open(options.file);
  if (file.contains(options.array)) return file.read(options.array);
  std::vector<std::string> names;
  for (const TensorInfo& tensor : file.tensors()) {
    if (names.size() < 10 && !tensor.name.empty()) names.push_back(tensor.name);
  }
  throw FileError(options.file, "no array '" + options.array + "'; " +
                                    (names.empty() ? "its array has no name: leave out --array"
                                                   : "there are " + listed(names)));
}

// T and S of what has the shape of weights; anything else is refused when it is drawn.
std::pair<std::int64_t, std::int64_t> sides_of(const Tensor& weights) {
  const int rank = weights.rank();
  if (rank < 2) return {0, 0};
  return {weights.extent(rank - 2), weights.extent(rank - 1)};
}

std::int64_t offset_of(const PositionOptions& options, std::int64_t queries, std::int64_t keys) {
  if (options.query_offset) return *options.query_offset;
  return options.align == "bottom-right" ? keys - queries : 0;
}

void add_tokens(ViewSource& source, const ViewSourceOptions& options, std::int64_t queries,
                std::int64_t keys) {
  if (options.tokens.empty()) {
    if (!options.key_tokens.empty()) throw UsageError("--key-tokens: needs --tokens as well");
    return;
  }
  TokenLists lists = read_tokens(options.tokens);
  if (!options.key_tokens.empty()) {
    lists.key = read_tokens(options.key_tokens).query;
    expect_key_count(lists.key, options.key_tokens, keys);
  }
  lists = fitted(std::move(lists), options.tokens, queries, keys, source.picture.query_offset);
  source.picture.query_tokens = std::move(lists.query);
  source.picture.key_tokens = std::move(lists.key);
}

ViewSource from_file(const ViewSourceOptions& options) {
  ViewSource source;
  source.weights = read_weights(options);
  source.name = options.file == "-" ? "standard input" : options.file;
  source.picture.title = std::filesystem::path(source.name).filename().string();
  const auto [queries, keys] = sides_of(source.weights);
  source.picture.query_offset = offset_of(options.call.positions, queries, keys);
  add_tokens(source, options, queries, keys);
  source.picture.heads = options.heads;
  source.picture.first_row = options.first_row;
  source.picture.end_row = options.end_row;
  return source;
}

// Heads and rows that are not shown are not computed either.
WeightsRequest request_for(const ViewSourceOptions& options, std::int64_t queries) {
  const std::int64_t end = options.end_row.value_or(queries);
  if (options.first_row >= end || end > queries) {
    throw UsageError("--rows: expected a range within 0:" + std::to_string(queries) + ", got " +
                     std::to_string(options.first_row) + ":" + std::to_string(end));
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - options.first_row));
  std::iota(rows.begin(), rows.end(), options.first_row);
  return selected_weights(options.heads, std::move(rows));
}

// What the tokens name are all queries; the weights of a run have the rows asked for only.
void keep_rows(AttentionPicture& picture, std::int64_t first, std::int64_t count) {
  if (!picture.query_tokens.empty()) {
    const auto begin = picture.query_tokens.begin() + first;
    picture.query_tokens = std::vector<std::string>(begin, begin + count);
  }
  picture.query_offset += first;
}

ViewSource from_run(const ViewSourceOptions& options) {
  const Call call = make_call(options.call);
  const int batched = call.query.rank() == 3 ? 1 : 0;
  if (call.query.rank() < 2) throw UsageError("--input: expected (B,T,features) or (T,features)");
  const std::int64_t queries = call.query.extent(batched);

  const MultiHeadAttention layer(call.layer.parts.config, call.layer.parts.weights);
  Context context = call.context();
  ForwardOptions forward = call.options;
  forward.context = &context;
  forward.weights = request_for(options, queries);
  ViewSource source;
  source.weights = layer.forward(call.inputs(), forward).weights;
  source.name = call.layer.title;
  source.picture.title = call.layer.heading;
  source.notes = call.layer.notes;
  const auto [rows, keys] = sides_of(source.weights);
  source.picture.query_offset = offset_of(options.call.positions, queries, keys);
  add_tokens(source, options, queries, keys);
  keep_rows(source.picture, options.first_row, rows);
  for (const std::int64_t head : options.heads) {
    source.picture.head_names.push_back("head " + std::to_string(head));
  }
  return source;
}

// One of a batch is shown: which one has to be said, whoever did not ask for it sees the first.
std::string sequence_text(const Tensor& weights, std::int64_t sequence) {
  constexpr int kBatched = 4;
  if (weights.rank() != kBatched || weights.extent(0) == 1) return "";
  return ", sequence " + std::to_string(sequence) + " of " + std::to_string(weights.extent(0));
}

}  // namespace

ViewSource view_source(const ViewSourceOptions& options) {
  ViewSource source = options.file.empty() ? from_run(options) : from_file(options);
  source.picture.sequence = options.sequence;
  source.picture.title += sequence_text(source.weights, options.sequence);
  for (const std::string& note : source.notes) source.picture.title += "; " + note;
  if (!options.title.empty()) source.picture.title = options.title;
  source.picture.weights = source.weights;
  return source;
}

}  // namespace headwise::cli
