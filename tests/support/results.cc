#include "support/results.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace headwise::oracle {

using std::log;

namespace {

std::vector<std::int64_t> joined(std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::int64_t> batch_axis(const Form& form) {
  return form.batched ? std::vector<std::int64_t>{form.batch} : std::vector<std::int64_t>{};
}

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  return numbers;
}

// (rows, H, …) to (B, |heads|, |queries|, …): some heads, some queries, all of what follows.
template <typename Scalar>
Array<Scalar> heads_first(const Array<Scalar>& x, const Form& form,
                          const std::vector<std::int64_t>& heads,
                          const std::vector<std::int64_t>& queries) {
  const std::vector<std::int64_t> tail(x.shape.begin() + 2, x.shape.end());
  const auto size = static_cast<std::int64_t>(Array<Scalar>::count(tail));
  Array<Scalar> y;
  y.shape = joined(batch_axis(form), {static_cast<std::int64_t>(heads.size()),
                                      static_cast<std::int64_t>(queries.size())});
  y.shape = joined(y.shape, tail);
  for (std::int64_t b = 0; b < form.batch; ++b) {
    for (const std::int64_t h : heads) {
      for (const std::int64_t t : queries) {
        const Scalar* from = x.values.data() + ((b * form.rows + t) * x.shape[1] + h) * size;
        y.values.insert(y.values.end(), from, from + size);
      }
    }
  }
  return y;
}

template <typename Scalar>
Array<Scalar> all_heads_first(const Array<Scalar>& x, const Form& form) {
  return heads_first(x, form, counted(x.shape[1]), counted(form.rows));
}

// (rows, H, S) to (rows, 1, S)
template <typename Scalar>
Array<Scalar> mean_over_heads(const Array<Scalar>& weights,
                              const std::vector<std::int64_t>& heads) {
  Array<Scalar> mean({weights.shape[0], 1, weights.shape[2]});
  for (std::int64_t r = 0; r < weights.shape[0]; ++r) {
    for (std::int64_t s = 0; s < weights.shape[2]; ++s) {
      Scalar sum(0);
      for (const std::int64_t h : heads) sum += weights(r, h, s);
      mean(r, 0, s) = sum / Scalar(static_cast<float>(heads.size()));
    }
  }
  return mean;
}

template <typename Scalar>
Array<Scalar> weight_matrix(const AttentionValues<Scalar>& values, const Form& form,
                            const WeightsRequest& request) {
  const auto heads = request.heads.empty() ? counted(values.weights.shape[1]) : request.heads;
  const auto queries = request.rows.empty() ? counted(form.rows) : request.rows;
  if (request.matrix == WeightsRequest::Matrix::PerHead)
    return heads_first(values.weights, form, heads, queries);
  Array<Scalar> mean = heads_first(mean_over_heads(values.weights, heads), form, {0}, queries);
  mean.shape.erase(mean.shape.end() - 3);  // the axis of one head
  return mean;
}

// (rows, H, k), largest first, 0 where a row has fewer keys.
template <typename Scalar>
Array<Scalar> largest(const Array<Scalar>& weights, std::int64_t k) {
  Array<Scalar> top({weights.shape[0], weights.shape[1], k});
  for (std::int64_t r = 0; r < weights.shape[0]; ++r) {
    for (std::int64_t h = 0; h < weights.shape[1]; ++h) {
      std::vector<Scalar> row(weights.row(r, h), weights.row(r, h) + weights.shape[2]);
      std::sort(row.begin(), row.end(), [](const Scalar& a, const Scalar& b) { return a > b; });
      row.resize(static_cast<std::size_t>(k), Scalar(0));
      std::copy(row.begin(), row.end(), top.row(r, h));
    }
  }
  return top;
}

// (rows, H): the sum over a row's attended keys of p times something.
template <typename Scalar>
Array<Scalar> expectation(
    const AttentionValues<Scalar>& values,
    const std::function<Scalar(const Scalar& p, const Scalar& distance, std::int64_t key)>& term) {
  const Array<Scalar>& weights = values.weights;
  Array<Scalar> sums({weights.shape[0], weights.shape[1]});
  for (std::int64_t r = 0; r < weights.shape[0]; ++r) {
    for (std::int64_t h = 0; h < weights.shape[1]; ++h) {
      for (std::int64_t s = 0; s < weights.shape[2]; ++s) {
        const Scalar p = weights(r, h, s);
        if (p > Scalar(0)) sums(r, h) += p * term(p, values.distance(r, h, s), s);
      }
    }
  }
  return sums;
}

}  // namespace

Form head_form(const ConstView& query, const ConstView& key, const AttentionOptions& options) {
  const bool batched = query.rank() == 4;
  const int row_axis = (batched ? 1 : 0) + (options.layout == Layout::HeadsFirst ? 1 : 0);
  return {batched, batched ? query.extent(0) : 1, query.extent(row_axis), key.extent(row_axis),
          options.layout};
}

Form layer_form(const ConstView& query, const ConstView& key) {
  const bool batched = query.rank() == 3;
  const int row_axis = batched ? 1 : 0;
  return {batched, batched ? query.extent(0) : 1, query.extent(row_axis), key.extent(row_axis),
          Layout::SequenceFirst};
}

template <typename Scalar>
Array<Scalar> in_layout(const Array<Scalar>& heads, const Form& form, RowsOf which) {
  Form own = form;
  if (which == RowsOf::Keys) own.rows = form.key_rows;
  if (form.layout == Layout::HeadsFirst) return all_heads_first(heads, own);
  Array<Scalar> result = heads;
  if (form.batched) result.shape = {form.batch, own.rows, heads.shape[1], heads.shape[2]};
  return result;
}

template <typename Scalar>
Array<Scalar> in_batch(const Array<Scalar>& features, const Form& form, RowsOf which) {
  Array<Scalar> result = features;
  const std::int64_t rows = which == RowsOf::Keys ? form.key_rows : form.rows;
  if (form.batched) result.shape = {form.batch, rows, features.shape[1]};
  return result;
}

template <typename Scalar>
Named<Scalar> attention_results(const AttentionValues<Scalar>& values, const Form& form,
                                const WeightsRequest& request) {
  using Number = const Scalar&;
  Named<Scalar> results;
  const auto add = [&](const char* name, const Array<Scalar>& rows) {
    results[name] = all_heads_first(rows, form);
  };
  add("log_sum_exp", values.log_sum_exp);
  if (request.matrix != WeightsRequest::Matrix::None)
    results["weights"] = weight_matrix(values, form, request);
  if (request.top_k > 0) add("top.values", largest(values.weights, request.top_k));
  if (request.statistics) {
    add("statistics.entropy",
        expectation<Scalar>(values, [](Number p, Number, std::int64_t) { return -log(p); }));
    add("statistics.mean_distance",
        expectation<Scalar>(values,
                            [](Number, Number distance, std::int64_t) { return distance; }));
    add("statistics.first_key_mass",
        expectation<Scalar>(
            values, [](Number, Number, std::int64_t key) { return Scalar(key == 0 ? 1 : 0); }));
  }
  return results;
}

std::map<std::string, const Tensor*> result_tensors(const AttentionResult& result,
                                                    const WeightsRequest& request) {
  std::map<std::string, const Tensor*> tensors = {{"log_sum_exp", &result.log_sum_exp}};
  if (request.matrix != WeightsRequest::Matrix::None) tensors["weights"] = &result.weights;
  if (request.top_k > 0) tensors["top.values"] = &result.top.values;
  if (request.statistics) {
    tensors["statistics.entropy"] = &result.statistics.entropy;
    tensors["statistics.mean_distance"] = &result.statistics.mean_distance;
    tensors["statistics.first_key_mass"] = &result.statistics.first_key_mass;
  }
  return tensors;
}

std::string check_top_indices(const TopWeights& top, const AttentionValues<double>& values,
                              const Form& form, double tolerance) {
  if (!(top.indices.shape() == top.values.shape())) return "indices and values differ in shape";
  const Array<double> weights = all_heads_first(values.weights, form);
  const Array<double> attended = all_heads_first(values.attended, form);
  const std::int64_t keys = values.weights.shape[2];
  const std::int64_t k = top.values.extent(top.values.rank() - 1);
  for (std::int64_t row = 0; row * k < top.values.size(); ++row) {
    const double* row_attended = attended.values.data() + row * keys;
    const auto count = std::count(row_attended, row_attended + keys, 1.0);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t index = top.indices.data()[row * k + i];
      const std::string place = "row " + std::to_string(row) + ", place " + std::to_string(i) +
                                ", index " + std::to_string(index) + ": ";
      if (i >= count) {
        if (index != -1) return place + "expected -1, all attended keys are named";
        continue;
      }
      if (index < 0 || index >= keys || row_attended[index] == 0.0)
        return place + "not an attended key";
      if (!seen.insert(index).second) return place + "named twice";
      const double difference = weights.values[static_cast<std::size_t>(row * keys + index)] -
                                static_cast<double>(top.values.data()[row * k + i]);
      if (std::abs(difference) > tolerance) return place + "its weight is another";
    }
  }
  return "";
}

#define HEADWISE_ORACLE_INSTANTIATE(Scalar)                                             \
  template Array<Scalar> in_layout(const Array<Scalar>&, const Form&, RowsOf);          \
  template Array<Scalar> in_batch(const Array<Scalar>&, const Form&, RowsOf);           \
  template Named<Scalar> attention_results(const AttentionValues<Scalar>&, const Form&, \
                                           const WeightsRequest&);
HEADWISE_ORACLE_INSTANTIATE(double)
HEADWISE_ORACLE_INSTANTIATE(float)
HEADWISE_ORACLE_INSTANTIATE(Rounded)
HEADWISE_ORACLE_INSTANTIATE(Jittered)
#undef HEADWISE_ORACLE_INSTANTIATE

}  // namespace headwise::oracle
