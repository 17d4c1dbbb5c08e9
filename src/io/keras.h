// Keras's own files: .weights.h5 (HDF5) and .keras (a zip with such a file and two documents).
//
// A tensor's name is its path in the HDF5 file, "layers/dense/vars/0", and the name that the user
// gave a layer is the text "layers/dense/vars@name" of the metadata.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/reader.h"

namespace headwise::io {

// All throw FileError or Malformed; the last two read from memory that must stay.
std::unique_ptr<Reader> open_keras_weights(const std::string& path);
std::unique_ptr<Reader> open_keras_model(const std::string& path);
std::unique_ptr<Reader> parse_keras_weights(const std::string& name,
                                            std::span<const std::byte> bytes);
std::unique_ptr<Reader> parse_keras_model(const std::string& name,
                                          std::span<const std::byte> bytes);

// The entries of a .keras.
inline constexpr const char* kKerasWeights = "model.weights.h5";
inline constexpr const char* kKerasConfig = "config.json";
inline constexpr const char* kKerasMetadata = "metadata.json";

}  // namespace headwise::io
