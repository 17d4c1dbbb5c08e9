#include "arrays.h"

#include <cstddef>
#include <iostream>
#include <utility>
#include <variant>

#include "commands.h"

namespace headwise::cli {

namespace {

const char* kind_of(const AnyTensor& tensor) {
  if (std::holds_alternative<BoolTensor>(tensor)) return "truth values";
  return std::holds_alternative<IndexTensor>(tensor) ? "whole numbers" : "floats";
}

template <typename T>
T expect(const std::string& option, const std::string& path, const char* expected,
         const char* hint) {
  AnyTensor tensor = read_array(option, path);
  if (T* found = std::get_if<T>(&tensor)) return std::move(*found);
  throw FileError(path, option + ": expected " + expected + ", got " + kind_of(tensor) + hint);
}

// "file.npz:name"; a file whose own name has a colon stays what it is if it exists.
std::pair<std::string, std::string> file_and_member(const std::string& path) {
  const std::size_t end = path.rfind(".npz:");
  if (end == std::string::npos) return {path, ""};
  return {path.substr(0, end + 4), path.substr(end + 5)};
}

}  // namespace

AnyTensor read_array(const std::string& option, const std::string& path) {
  if (path == "-") return read_npy(std::cin, "standard input");
  const auto [file_name, member] = file_and_member(path);
  const TensorFile file = TensorFile::open(file_name);
  if (!member.empty()) return file.read_any(member);
  if (file.tensors().size() != 1) {
    std::string names;
    for (const TensorInfo& tensor : file.tensors()) {
      if (names.size() < 100) names += (names.empty() ? "" : ", ") + tensor.name;
    }
    throw FileError(path, option + ": expected one array, got " +
                              std::to_string(file.tensors().size()) + " (" + names +
                              "); name one as FILE.npz:NAME");
  }
  return file.read_any(file.tensors().front().name);
}

Tensor read_floats(const std::string& option, const std::string& path) {
  return expect<Tensor>(option, path, "floats", "; save it with .astype('float32')");
}

BoolTensor read_bools(const std::string& option, const std::string& path) {
  return expect<BoolTensor>(option, path, "truth values (true = attend)",
                            "; numbers that are added to the scores go to --bias, others need "
                            ".astype(bool)");
}

void write_array(const std::string& path, const ConstView& tensor) {
  if (path == "-") {
    write_npy(std::cout, tensor);
    std::cout.flush();
    return;
  }
  write_npy(path, tensor);
}

}  // namespace headwise::cli
