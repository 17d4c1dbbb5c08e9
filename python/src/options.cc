// What a call may be asked for besides masks: layouts, dropout, packed batches, attention weights.

#include <string>

#include "arrays.h"
#include "bindings.h"
#include "headwise/attention.h"
#include "types.h"

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

void bind_dropout(nb::module_& module) {
  nb::class_<Dropout>(module, "Dropout", kDropoutDoc)
      .def(
          "__init__",
          [](Dropout* self, float probability, std::uint64_t seed, IntegersGiven ids) {
            new (self) Dropout{probability, seed, integer_list(ids, {"Dropout", "sequence_ids"})};
          },
          nb::arg("probability"), nb::arg("seed") = 0, nb::arg("sequence_ids") = nb::none())
      .def_ro("probability", &Dropout::probability)
      .def_ro("seed", &Dropout::seed)
      .def_ro("sequence_ids", &Dropout::sequence_ids);
  nb::class_<PackedLengths>(module, "PackedLengths", kPackedDoc)
      .def(
          "__init__",
          [](PackedLengths* self, IntegersGiven query, IntegersGiven key) {
            new (self) PackedLengths{integer_list(query, {"PackedLengths", "query"}),
                                     integer_list(key, {"PackedLengths", "key"})};
          },
          nb::arg("query"), nb::arg("key") = nb::none())
      .def_ro("query", &PackedLengths::query)
      .def_ro("key", &PackedLengths::key, "Empty: as query.");
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
      .def(nb::self | nb::self);
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
  module.def("top_k_weights", &top_k_weights, nb::arg("k"),
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
  bind_request_class(module);
  bind_requests(module);
}

}  // namespace headwise::python
