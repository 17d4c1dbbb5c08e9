#include "support/golden.h"

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace headwise::test_support {
namespace {

using nlohmann::json;

void add_tensor(GoldenCases& cases, const TensorInfo& info, AnyTensor tensor) {
  const auto refuse = [&](const std::string& problem) {
    throw std::runtime_error("tensor " + info.name + ": " + problem);
  };
  // Other types could be read as well, but were not meant: a result of a framework in 16 bits.
  if (info.dtype != "F32" && info.dtype != "I64" && info.dtype != "BOOL") {
    refuse("dtype " + info.dtype + " is not one of F32, I64, BOOL");
  }
  const std::size_t slash = info.name.find('/');
  const auto owner = cases.find(info.name.substr(0, slash));
  if (slash == std::string::npos || owner == cases.end()) {
    refuse("belongs to no case of the metadata");
  }
  owner->second.add(info.name.substr(slash + 1), std::move(tensor));
}

GoldenCases cases_of(const TensorFile& file) {
  GoldenCases cases;
  for (const auto& [name, options] : file.metadata()) {
    cases.emplace(name, GoldenCase(name, json::parse(options)));
  }
  if (cases.empty()) throw std::runtime_error("no case in the metadata");
  for (const TensorInfo& info : file.tensors()) {
    add_tensor(cases, info, file.read_any(info.name));
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
  const TensorFile file = TensorFile::open(path);
  try {
    return cases_of(file);
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace headwise::test_support
