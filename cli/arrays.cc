#include "arrays.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
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

// " (a, b, …)"
std::string names_in_brackets(const TensorFile& file) {
  constexpr std::size_t kMost = 100;  // characters
  std::string names;
  for (const TensorInfo& tensor : file.tensors()) {
    if (names.size() > kMost) return " (" + names + ", …)";
    names += (names.empty() ? "" : ", ") + tensor.name;
  }
  return names.empty() ? "" : " (" + names + ")";
}

// "file.npz:name"; a file whose own name has a colon stays what it is if it exists.
std::pair<std::string, std::string> file_and_member(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return {path, ""};
  for (std::size_t colon = path.find(':'); colon != std::string::npos;
       colon = path.find(':', colon + 1)) {
    const std::string file = path.substr(0, colon);
    if (std::filesystem::exists(file, error)) return {file, path.substr(colon + 1)};
  }
  return {path, ""};
}

AnyTensor read_stream(std::istream& stream, const std::string& name) {
  AnyTensor tensor = read_npy(stream, name);
  if (stream.peek() != std::istream::traits_type::eof()) {
    throw FileError(name, "goes on after the numbers of its array");
  }
  return tensor;
}

// A pipe, as the shell makes one of <(command), is read as standard input is.
bool is_pipe(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_fifo(path, error);
}

}  // namespace

AnyTensor read_array(const std::string& option, const std::string& path) {
  if (path == "-") return read_stream(std::cin, "standard input");
  if (is_pipe(path)) {
    std::ifstream pipe(path, std::ios::binary);
    return read_stream(pipe, path);
  }
  const auto [file_name, member] = file_and_member(path);
  const TensorFile file = TensorFile::open(file_name);
  if (!member.empty()) return file.read_any(member);
  if (file.tensors().size() != 1) {
    throw FileError(path, option + ": expected one array, got " +
                              std::to_string(file.tensors().size()) + names_in_brackets(file) +
                              "; name one as " + path + ":NAME");
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
