// Arrays from npy files, members of others ("file.npz:name", "file.safetensors:name"), pipes or
// standard input ("-").
#pragma once

#include <string>

#include "headwise/io.h"
#include "headwise/tensor.h"

namespace headwise::cli {

// `option` is for messages: "--mask: expected …".
AnyTensor read_array(const std::string& option, const std::string& path);
Tensor read_floats(const std::string& option, const std::string& path);
BoolTensor read_bools(const std::string& option, const std::string& path);

// To a file, or to standard output for "-".
void write_array(const std::string& path, const ConstView& tensor);

}  // namespace headwise::cli
