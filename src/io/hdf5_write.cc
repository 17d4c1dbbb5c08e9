// Writing HDF5, in an isolated child as well: libhdf5 then needs no lock of ours, and whatever it
// keeps for itself ends with the child.
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5.h"
#include "io/hdf5_handle.h"
#include "io/hdf5_image.h"
#include "io/hdf5_isolation.h"
#include "io/hdf5_names.h"

namespace headwise::io {
namespace {

void check(herr_t done, const std::string& path) {
  if (done < 0) fail_hdf5(path, "cannot be written");
}

// Without the time of day in them the same tensors give the same bytes.
Hdf5Handle timeless(hid_t kind) {
  Hdf5Handle properties = opened(H5Pcreate(kind), H5Pclose, "");
  check(H5Pset_obj_track_times(properties.get(), false), "");
  return properties;
}

// A file in memory. Groups, attributes and datasets are those that h5py makes for Keras.
class Writer {
 public:
  Writer() : file_(create()), dataset_properties_(timeless(H5P_DATASET_CREATE)) {}

  void add_tensor(const std::string& path, const Tensor& tensor) {
    const std::size_t slash = path.rfind('/');
    const hid_t group = group_at(slash == std::string::npos ? "" : path.substr(0, slash));
    const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    std::array<hsize_t, kMaxRank> extents{};
    std::copy(tensor.shape().begin(), tensor.shape().end(), extents.begin());
    const Hdf5Handle space =
        opened(H5Screate_simple(tensor.rank(), extents.data(), nullptr), H5Sclose, path, kProblem);
    const Hdf5Handle dataset =
        opened(H5Dcreate2(group, name.c_str(), H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                          dataset_properties_.get(), H5P_DEFAULT),
               H5Dclose, path, kProblem);
    if (tensor.size() == 0) return;
    check(H5Dwrite(dataset.get(), H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data()),
          path);
  }

  // To a dataset that is there already, or to a group.
  void add_attribute(const std::string& path, const std::string& name, const std::string& text,
                     bool is_dataset) {
    const Hdf5Handle type = opened(H5Tcopy(H5T_C_S1), H5Tclose, path, kProblem);
    check(H5Tset_size(type.get(), H5T_VARIABLE), path);
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), path);
    const Hdf5Handle space = opened(H5Screate(H5S_SCALAR), H5Sclose, path, kProblem);
    if (!is_dataset) (void)group_at(path);
    const Hdf5Handle object =
        opened(H5Oopen(file_.get(), ("/" + path).c_str(), H5P_DEFAULT), H5Oclose, path, kProblem);
    const Hdf5Handle attribute = opened(
        H5Acreate2(object.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose, path, kProblem);
    const char* bytes = text.c_str();
    check(H5Awrite(attribute.get(), type.get(), static_cast<const void*>(&bytes)), path);
  }

  [[nodiscard]] std::vector<std::byte> image() const {
    check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "");
    const ssize_t size = H5Fget_file_image(file_.get(), nullptr, 0);
    if (size < 0) fail_hdf5("", kProblem);
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    if (H5Fget_file_image(file_.get(), bytes.data(), bytes.size()) < 0) fail_hdf5("", kProblem);
    return bytes;
  }

 private:
  static constexpr const char* kProblem = "cannot be written";

  static Hdf5Handle create() {
    constexpr std::size_t kGrowth = std::size_t{1} << 20U;
    const Hdf5Handle access = opened(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "");
    check(H5Pset_fapl_core(access.get(), kGrowth, false), "");
    const Hdf5Handle properties = timeless(H5P_FILE_CREATE);
    return opened(H5Fcreate(kHdf5ImageName, H5F_ACC_TRUNC, properties.get(), access.get()),
                  H5Fclose, "", kProblem);
  }

  // The group at a path, made with those above it where it is not there yet.
  hid_t group_at(const std::string& path) {
    if (path.empty()) return file_.get();
    if (const auto known = groups_.find(path); known != groups_.end()) return known->second.get();
    const std::size_t slash = path.rfind('/');
    const hid_t parent = group_at(slash == std::string::npos ? "" : path.substr(0, slash));
    const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    const Hdf5Handle properties = timeless(H5P_GROUP_CREATE);
    Hdf5Handle group =
        opened(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
               H5Gclose, path, kProblem);
    return groups_.emplace(path, std::move(group)).first->second.get();
  }

  Hdf5Handle file_;
  Hdf5Handle dataset_properties_;
  std::map<std::string, Hdf5Handle> groups_;
};

void write_all(const TensorMap& tensors, const Metadata& attributes, ChildOutput& output) {
  prepare_libhdf5();
  Writer writer;
  for (const auto& [path, tensor] : tensors) writer.add_tensor(path, tensor);
  for (const auto& [key, text] : attributes) {
    const std::size_t at = key.rfind('@');
    const std::string path = key.substr(0, at);
    writer.add_attribute(path, key.substr(at + 1), text, tensors.contains(path));
  }
  output.send(writer.image());
}

}  // namespace

void write_hdf5(const TensorMap& tensors, const Metadata& attributes,
                const std::function<void(Bytes)>& receive) {
  constexpr ChildLimits kNone = {
      .memory_bytes = std::uint64_t{1} << 62U, .seconds = 1 << 29, .task = "writing it"};
  run_isolated(
      kNone, [&](ChildOutput& output) { write_all(tensors, attributes, output); }, receive);
}

}  // namespace headwise::io
