#include "support/golden.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace headwise::test_support {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

Shape read_shape(const json& entry) {
  const auto extents = entry.at("shape").get<std::vector<std::int64_t>>();
  return Shape(std::span<const std::int64_t>(extents));
}

template <typename T>
BasicTensor<T> read_numbers(const Shape& shape, std::string_view bytes) {
  const auto count = static_cast<std::uint64_t>(shape.element_count());
  if (bytes.size() / sizeof(T) != count || bytes.size() % sizeof(T) != 0) {
    throw std::runtime_error(std::to_string(bytes.size()) + " bytes for shape " +
                             shape.to_string());
  }
  BasicTensor<T> tensor(shape);
  if constexpr (std::is_same_v<T, bool>) {
    for (std::size_t i = 0; i < bytes.size(); ++i) tensor.values()[i] = bytes[i] != 0;
  } else if (!bytes.empty()) {
    std::memcpy(tensor.data(), bytes.data(), bytes.size());
  }
  return tensor;
}

GoldenCase::AnyTensor read_tensor(const json& entry, std::string_view data) {
  const auto offsets = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    throw std::runtime_error("data_offsets outside the file");
  }
  const std::string_view bytes = data.substr(offsets[0], offsets[1] - offsets[0]);
  const Shape shape = read_shape(entry);
  const auto type = entry.at("dtype").get<std::string>();
  if (type == "F32") return read_numbers<float>(shape, bytes);
  if (type == "I64") return read_numbers<std::int64_t>(shape, bytes);
  if (type == "BOOL") return read_numbers<bool>(shape, bytes);
  throw std::runtime_error("dtype " + type + " is not one of F32, I64, BOOL");
}

void add_tensor(GoldenCases& cases, const std::string& full_name, const json& entry,
                std::string_view data) {
  const std::size_t slash = full_name.find('/');
  const auto owner = cases.find(full_name.substr(0, slash));
  if (slash == std::string::npos || owner == cases.end()) {
    throw std::runtime_error("belongs to no case of the metadata");
  }
  owner->second.add(full_name.substr(slash + 1), read_tensor(entry, data));
}

GoldenCases parse(std::string_view file) {
  std::uint64_t header_size = 0;
  if (file.size() < sizeof header_size)
    throw std::runtime_error("shorter than its header's length");
  std::memcpy(&header_size, file.data(), sizeof header_size);
  file.remove_prefix(sizeof header_size);
  if (header_size > file.size()) throw std::runtime_error("shorter than its header");
  const json header = json::parse(file.substr(0, header_size));
  const std::string_view data = file.substr(header_size);

  GoldenCases cases;
  for (const auto& [name, options] : header.at("__metadata__").items()) {
    cases.emplace(name, GoldenCase(name, json::parse(options.get<std::string>())));
  }
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      add_tensor(cases, name, entry, data);
    } catch (const std::exception& error) {
      throw std::runtime_error("tensor " + name + ": " + error.what());
    }
  }
  return cases;
}

}  // namespace

GoldenCase::GoldenCase(std::string name, json options)
    : name_(std::move(name)), options_(std::move(options)) {
  if (!options_.is_object()) throw std::runtime_error("case " + name_ + ": options are no object");
}

void GoldenCase::add(const std::string& name, AnyTensor tensor) {
  tensors_.emplace(name, std::move(tensor));
}

template <typename T>
const T& GoldenCase::get(const std::string& name, const char* type) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("case " + name_ + ": no tensor " + name);
  const T* tensor = std::get_if<T>(&found->second);
  if (tensor == nullptr) {
    throw std::runtime_error("case " + name_ + ": tensor " + name + " is not " + type);
  }
  used_.insert("tensor " + name);
  return *tensor;
}

const Tensor& GoldenCase::floats(const std::string& name) { return get<Tensor>(name, "F32"); }
const IndexTensor& GoldenCase::indices(const std::string& name) {
  return get<IndexTensor>(name, "I64");
}
const BoolTensor& GoldenCase::bools(const std::string& name) {
  return get<BoolTensor>(name, "BOOL");
}

bool GoldenCase::is_bool(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && std::holds_alternative<BoolTensor>(found->second);
}

TensorMap GoldenCase::group(const std::string& prefix) {
  TensorMap group;
  for (const auto& [name, tensor] : tensors_) {
    if (name.starts_with(prefix)) group.emplace(name.substr(prefix.size()), floats(name));
  }
  return group;
}

const json& GoldenCase::option_value(const std::string& key) {
  const auto found = options_.find(key);
  if (found == options_.end()) throw std::runtime_error("case " + name_ + ": no option " + key);
  used_.insert("option " + key);
  return *found;
}

std::vector<std::string> GoldenCase::unused() const {
  std::vector<std::string> names;
  for (const auto& entry : tensors_) names.push_back("tensor " + entry.first);
  for (const auto& [key, value] : options_.items()) names.push_back("option " + key);
  std::erase_if(names, [&](const std::string& name) { return used_.contains(name); });
  return names;
}

std::string read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

GoldenCases read_golden(const std::string& path) {
  const std::string file = read_whole_file(path);
  try {
    return parse(file);
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace headwise::test_support
