// What a call may be asked for besides masks: layouts, dropout, packed batches, attention weights.
#include "options.h"

#include <string>

#include "bindings.h"
#include "types.h"
#include "values.h"

namespace headwise::python {

namespace {

constexpr const char* kLayoutDoc =
    R"(Order of a head tensor's axes; without B for a single sequence and for packed batches.

>>> import headwise, numpy
>>> x = numpy.ones((1, 2, 3, 4), numpy.float32)  # one sequence, 2 heads, 3 positions
>>> headwise.attention(x, x, x, layout=headwise.Layout.HeadsFirst).log_sum_exp.shape
(1, 2, 3)
)";

constexpr const char* kDropoutDoc =
    R"(Every attention weight is kept or dropped by a hash of (seed, sequence id, head, query, key), and
scaled by 1/(1−probability) if kept. sequence_ids: one per sequence; None: 0, 1, 2, …

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> a = headwise.attention(x, x, x, dropout=headwise.Dropout(0.5, seed=1))
>>> b = headwise.attention(x, x, x, dropout=headwise.Dropout(0.5, seed=1))
>>> numpy.array_equal(a.output, b.output)
True
)";

constexpr const char* kPackedDoc =
    R"(Sequences of different lengths, stored one after the other without padding. Cumulative: [0, 3, 7]
are two sequences of 3 and 4. key: as query, if not given.

>>> import headwise, numpy
>>> x = numpy.ones((7, 2, 4), numpy.float32)
>>> headwise.attention(x, x, x, packed=headwise.PackedLengths([0, 3, 7])).output.shape
(7, 2, 4)
)";

constexpr const char* kRequestDoc =
    R"(Which attention weights, before dropout, to return; only what is asked for is stored. Made by
all_weights() and its friends, joined by |.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> r = headwise.attention(x, x, x, weights=headwise.averaged_weights() | headwise.top_k_weights(2))
>>> r.weights.shape, r.top.values.shape
((1, 3, 3), (1, 2, 3, 2))
)";

Dropout make_dropout(NumberGiven probability, IntegerGiven seed, IntegersGiven ids) {
  Dropout dropout{option_of<float>(probability, {"Dropout", "probability"}),
                  option_of<std::uint64_t>(seed, {"Dropout", "seed"}),
                  integer_list(ids, {"Dropout", "sequence_ids"})};
  if (!(dropout.probability >= 0.0F && dropout.probability < 1.0F)) {
    fail_value({"Dropout", "probability"}, "a number in [0, 1)", text_of(dropout.probability));
  }
  return dropout;
}

std::string repr(const Dropout& dropout) {
  const std::string ids =
      dropout.sequence_ids.empty() ? "" : ", sequence_ids=" + text_of(dropout.sequence_ids);
  return "Dropout(" + text_of(dropout.probability) + ", seed=" + std::to_string(dropout.seed) +
         ids + ")";
}

std::string repr(const PackedLengths& packed) {
  const std::string key = packed.key.empty() ? "" : ", " + text_of(packed.key);
  return "PackedLengths(" + text_of(packed.query) + key + ")";
}

std::string repr(const WeightsRequest& request) {
  using Matrix = WeightsRequest::Matrix;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " | ") + part; };
  if (request.matrix == Matrix::Averaged) add("averaged_weights()");
  if (request.matrix == Matrix::PerHead) {
    const bool all = request.heads.empty() && request.rows.empty();
    add(all ? "all_weights()"
            : "selected_weights(" + text_of(request.heads) + ", " + text_of(request.rows) + ")");
  }
  if (request.top_k != 0) add("top_k_weights(" + std::to_string(request.top_k) + ")");
  if (request.statistics) add("weight_statistics()");
  return text.empty() ? "no_weights()" : text;
}

void bind_dropout(nb::module_& module) {
  nb::class_<Dropout> dropout(module, "Dropout", kDropoutDoc);
  dropout
      .def(
          "__init__",
          [](Dropout* self, NumberGiven probability, IntegerGiven seed, IntegersGiven ids) {
            new (self) Dropout(make_dropout(probability, seed, ids));
          },
          nb::arg("probability"), nb::arg("seed") = 0, nb::arg("sequence_ids") = nb::none())
      .def_ro("probability", &Dropout::probability)
      .def_ro("seed", &Dropout::seed)
      .def_ro("sequence_ids", &Dropout::sequence_ids)
      .def("__repr__", [](const Dropout& self) { return repr(self); });
  bind_value(dropout, &Dropout::probability, &Dropout::seed, &Dropout::sequence_ids);
}

void bind_packed(nb::module_& module) {
  nb::class_<PackedLengths> packed(module, "PackedLengths", kPackedDoc);
  packed
      .def(
          "__init__",
          [](PackedLengths* self, IntegersGiven query, IntegersGiven key) {
            new (self) PackedLengths{integer_list(query, {"PackedLengths", "query"}),
                                     integer_list(key, {"PackedLengths", "key"})};
          },
          nb::arg("query"), nb::arg("key") = nb::none())
      .def_ro("query", &PackedLengths::query)
      .def_ro("key", &PackedLengths::key, "Empty: as query.")
      .def("__repr__", [](const PackedLengths& self) { return repr(self); });
  bind_value(packed, &PackedLengths::query, &PackedLengths::key);
}

void bind_request_class(nb::module_& module) {
  using Matrix = WeightsRequest::Matrix;
  nb::class_<WeightsRequest> request(module, "WeightsRequest", kRequestDoc);
  nb::enum_<Matrix>(request, "Matrix", "Which matrix of weights.")
      .value("None_", Matrix::None)
      .value("PerHead", Matrix::PerHead)
      .value("Averaged", Matrix::Averaged);
  request.def_ro("matrix", &WeightsRequest::matrix)
      .def_ro("heads", &WeightsRequest::heads, "Of the matrix; empty: all.")
      .def_ro("rows", &WeightsRequest::rows, "Of the matrix, query indices; empty: all.")
      .def_ro("top_k", &WeightsRequest::top_k, "Largest weights of every row; 0: none.")
      .def_ro("statistics", &WeightsRequest::statistics)
      .def(nb::self | nb::self)
      .def("__repr__", [](const WeightsRequest& self) { return repr(self); });
  bind_value(request, &WeightsRequest::matrix, &WeightsRequest::heads, &WeightsRequest::rows,
             &WeightsRequest::top_k, &WeightsRequest::statistics);
}

void bind_requests(nb::module_& module) {
  module.def("no_weights", &no_weights, R"(Nothing, the default.

>>> import headwise
>>> headwise.no_weights().top_k
0
)");
  module.def("all_weights", &all_weights, R"((B,Hq,T,S)

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> headwise.attention(x, x, x, weights=headwise.all_weights()).weights.shape
(1, 2, 3, 3)
)");
  module.def("averaged_weights", &averaged_weights, R"((B,T,S), the mean over heads.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> headwise.attention(x, x, x, weights=headwise.averaged_weights()).weights.shape
(1, 3, 3)
)");
  module.def(
      "selected_weights",
      [](IntegersGiven heads, IntegersGiven rows) {
        return selected_weights(integer_list(heads, {"selected_weights", "heads"}),
                                integer_list(rows, {"selected_weights", "rows"}));
      },
      nb::arg("heads") = nb::none(), nb::arg("rows") = nb::none(),
      R"((B,|heads|,|rows|,S); None or an empty list means all.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> headwise.attention(x, x, x, weights=headwise.selected_weights(rows=[2])).weights.shape
(1, 2, 1, 3)
)");
  module.def(
      "top_k_weights",
      [](IntegerGiven k) {
        return top_k_weights(option_of<std::int64_t>(k, {"top_k_weights", "k"}));
      },
      nb::arg("k"),
      R"(The k largest weights of every row and their keys, (B,Hq,T,k).

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> headwise.attention(x, x, x, weights=headwise.top_k_weights(2)).top.indices.shape
(1, 2, 3, 2)
)");
  module.def("weight_statistics", &weight_statistics,
             R"(Entropy, mean distance and mass on key 0 of every row, (B,Hq,T) each.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> headwise.attention(x, x, x, weights=headwise.weight_statistics()).statistics.entropy.shape
(1, 2, 3)
)");
}

}  // namespace

void bind_options(nb::module_& module) {
  nb::enum_<Layout>(module, "Layout", kLayoutDoc)
      .value("SequenceFirst", Layout::SequenceFirst, "(B,T,H,d)")
      .value("HeadsFirst", Layout::HeadsFirst, "(B,H,T,d)");
  bind_dropout(module);
  bind_packed(module);
  bind_request_class(module);
  bind_requests(module);
}

}  // namespace headwise::python
