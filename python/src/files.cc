// Files of tensors: TensorFile and write_…().
#include <new>
#include <string>
#include <utility>
#include <variant>

#include "arrays.h"
#include "call.h"
#include "files.h"
#include "headwise/io.h"
#include "types.h"

namespace headwise::python {

namespace {

// As the file system spells it: text, bytes or an os.PathLike.
std::string path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), static_cast<void*>(&bytes)) == 0) throw nb::python_error();
  const auto owned = nb::steal<nb::bytes>(bytes);
  return {owned.c_str(), owned.size()};
}

TensorFile open(PathGiven path) {
  const std::string name = path_of(path);
  return without_gil([&] { return TensorFile::open(name); });
}

AnyArrayMade read_any(const TensorFile& file, const std::string& name) {
  AnyTensor tensor = without_gil([&] { return file.read_any(name); });
  return std::visit([](auto& numbers) { return AnyArrayMade(to_numpy(std::move(numbers))); },
                    tensor);
}

// A function that writes tensors and metadata.
using Write = void (*)(const std::string&, const TensorMap&, const Metadata&, const FileCheck&);
auto writer(const char* function, Write write) {
  return [function, write](PathGiven path, WeightsGiven tensors, const Metadata& metadata) {
    const std::string name = path_of(path);
    const TensorMap copies = tensor_map(function, tensors);
    without_gil([&] {
      write(name, copies, metadata, {});
      return true;
    });
  };
}

constexpr const char* kErrorDoc = R"(A file cannot be read or written; `path` says which.

>>> import headwise
>>> try:
...     headwise.TensorFile.open("/nowhere/model.safetensors")
... except headwise.FileError as error:
...     print(error.path)
/nowhere/model.safetensors
)";
constexpr const char* kFileDoc =
    R"(An open file of tensors: safetensors (also sharded by an index), npy, npz, Keras's .weights.h5 and
.keras. The format is told by its content. A folder stands for its model.safetensors. Any number of
threads may read from it. Nothing in a file is trusted.

>>> import headwise, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
>>> headwise.write_safetensors(path, {"x": numpy.ones((2, 3), numpy.float32)}, {"by": "me"})
>>> file = headwise.TensorFile.open(path)
>>> file.format, [(info.name, info.shape, info.dtype) for info in file.tensors], file.metadata
('safetensors', [('x', (2, 3), 'F32')], {'by': 'me'})
>>> "x" in file, file.read("x").sum()
(True, np.float32(6.0))
)";
constexpr const char* kInfoDoc = R"(A tensor in a file, before it is read.

>>> import headwise, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
>>> headwise.write_safetensors(path, {"x": numpy.ones((2, 3), numpy.float32)})
>>> info, = headwise.TensorFile.open(path).tensors
>>> info.name, info.shape, info.dtype
('x', (2, 3), 'F32')
)";
constexpr const char* kNpyDoc = R"(One array.

>>> import headwise, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
>>> headwise.write_npy(path, numpy.ones((2, 3), numpy.float32))
>>> numpy.load(path).shape
(2, 3)
)";
constexpr const char* kNpzDoc = R"(Arrays by name.

>>> import headwise, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
>>> headwise.write_npz(path, {"x": numpy.ones((2, 3), numpy.float32)})
>>> numpy.load(path)["x"].shape
(2, 3)
)";
constexpr const char* kSafetensorsDoc = R"(Arrays by name, and texts.

>>> import headwise, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
>>> headwise.write_safetensors(path, {"x": numpy.ones((2, 3), numpy.float32)})
>>> headwise.TensorFile.open(path).read("x").shape
(2, 3)
)";
constexpr const char* kWeightsDoc =
    R"(Keras's .weights.h5. Names are paths; metadata "group/path@attribute" becomes an attribute.

>>> import headwise, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.weights.h5")
>>> headwise.write_keras_weights(path, {"layers/dense/vars/0": numpy.ones((2, 3), numpy.float32)})
>>> headwise.TensorFile.open(path).format
'keras weights'
)";
constexpr const char* kModelDoc =
    R"(A .keras: the same in a zip, beside the documents "config.json" and "metadata.json" of `metadata`.

>>> import headwise, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "x.keras")
>>> config = headwise.presets.keras(2, 4, query_features=8)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> model = headwise.keras_model_of({"attention": parts})
>>> headwise.write_keras_model(path, model.tensors, model.metadata)
>>> headwise.TensorFile.open(path).format
'keras model'
)";

void bind_error(nb::module_& module) {
  const nb::object type =
      nb::steal(PyErr_NewExceptionWithDoc("headwise.FileError", kErrorDoc, PyExc_OSError, nullptr));
  module.attr("FileError") = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* payload) {
        try {
          std::rethrow_exception(thrown);
        } catch (const FileError& error) {
          const nb::handle kind(static_cast<PyObject*>(payload));
          const nb::object raised = kind(error.what());
          raised.attr("path") = nb::steal(PyUnicode_DecodeFSDefault(error.path().c_str()));
          PyErr_SetObject(kind.ptr(), raised.ptr());
        }
      },
      type.inc_ref().ptr());
}

void bind_reader(nb::module_& module) {
  using nb::arg;
  nb::class_<TensorInfo>(module, "TensorInfo", kInfoDoc)
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro("shape", [](const TensorInfo& info) { return ShapeMade(to_tuple(info.shape)); })
      .def_ro("dtype", &TensorInfo::dtype, "In safetensors' words: 'F32', 'BF16', 'I64', 'BOOL'.");
  nb::class_<TensorFile>(module, "TensorFile", kFileDoc)
      .def_static("open", &open, arg("path"))
      .def_prop_ro("path", &TensorFile::path)
      .def_prop_ro("format", &TensorFile::format)
      .def_prop_ro("tensors", &TensorFile::tensors, nb::rv_policy::copy,
                   "Sorted by name. The one tensor of an npy file has the name ''.")
      .def_prop_ro("metadata", &TensorFile::metadata)
      .def("contains", &TensorFile::contains, arg("name"))
      .def("__contains__", &TensorFile::contains, arg("name"))
      .def(
          "read",
          [](const TensorFile& file, const std::string& name) {
            return FloatsMade(to_numpy(without_gil([&] { return file.read(name); })));
          },
          arg("name"), "Floating-point numbers of any width, as float32.")
      .def("read_any", &read_any, arg("name"), "Numbers as they are meant: also int64 or bool.");
}

}  // namespace

void bind_files(nb::module_& module) {
  using nb::arg;
  bind_error(module);
  bind_reader(module);
  module.def(
      "write_npy",
      [](PathGiven path, FloatsGiven tensor) {
        const std::string name = path_of(path);
        const Borrowed<const float> numbers(tensor, {"write_npy", "tensor"});
        without_gil([&] {
          write_npy(name, numbers.view());
          return true;
        });
      },
      arg("path"), arg("tensor"), kNpyDoc);
  module.def(
      "write_npz",
      [](PathGiven path, WeightsGiven tensors) {
        const auto write = [](const std::string& name, const TensorMap& map, const Metadata&,
                              const FileCheck& check) { write_npz(name, map, check); };
        writer("write_npz", write)(path, tensors, {});
      },
      arg("path"), arg("tensors"), kNpzDoc);
  module.def("write_safetensors", writer("write_safetensors", &write_safetensors), arg("path"),
             arg("tensors"), arg("metadata") = Metadata{}, kSafetensorsDoc);
  module.def("write_keras_weights", writer("write_keras_weights", &write_keras_weights),
             arg("path"), arg("tensors"), arg("metadata") = Metadata{}, kWeightsDoc);
  module.def("write_keras_model", writer("write_keras_model", &write_keras_model), arg("path"),
             arg("tensors"), arg("metadata"), kModelDoc);
}

}  // namespace headwise::python
