// Reads the golden files of the parity tests: safetensors with F32, I64 and BOOL tensors, named
// "<case>/<name>", and one JSON object of options per case in the metadata.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "headwise/io.h"
#include "headwise/tensor.h"

namespace headwise::test_support {

// One case. It remembers what was asked for, so that a test can insist on having used all of it.
class GoldenCase {
 public:
  GoldenCase() = default;
  GoldenCase(std::string name, nlohmann::json options);
  void add(const std::string& name, AnyTensor tensor);

  [[nodiscard]] const std::string& name() const { return name_; }

  // Throw std::runtime_error if there is no such tensor, or one of another type.
  const Tensor& floats(const std::string& name);
  const IndexTensor& indices(const std::string& name);
  const BoolTensor& bools(const std::string& name);
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }
  [[nodiscard]] bool is_bool(const std::string& name) const;
  // All float tensors whose name begins with `prefix`, under the rest of their names.
  TensorMap group(const std::string& prefix);

  [[nodiscard]] bool has_option(const std::string& key) const { return options_.contains(key); }
  template <typename T>
  T option(const std::string& key) {
    return option_value(key).get<T>();
  }
  template <typename T>
  T option_or(const std::string& key, T otherwise) {
    return has_option(key) ? option<T>(key) : otherwise;
  }

  // Tensors and options that nobody asked for.
  [[nodiscard]] std::vector<std::string> unused() const;

 private:
  template <typename T>
  const T& get(const std::string& name, const char* type);
  const nlohmann::json& option_value(const std::string& key);

  std::string name_;
  nlohmann::json options_;
  std::map<std::string, AnyTensor> tensors_;
  std::set<std::string> used_;
};

using GoldenCases = std::map<std::string, GoldenCase>;

// All cases of a file. Throws std::runtime_error that says what is wrong if the file cannot be
// read, is damaged, or has a tensor that belongs to no case.
GoldenCases read_golden(const std::string& path);

std::string read_whole_file(const std::string& path);  // throws std::runtime_error

}  // namespace headwise::test_support
