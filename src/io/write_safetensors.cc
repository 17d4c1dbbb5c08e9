#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "headwise/io.h"
#include "io/atomic_file.h"
#include "io/quoted.h"
#include "io/safetensors.h"
#include "io/utf8.h"

namespace headwise {
namespace {

constexpr const char* kFunction = "write_safetensors";

std::string json_text(const std::string& text) {
  if (!io::is_utf8(text)) base::fail(kFunction, "names", "UTF-8", io::quoted(text));
  return nlohmann::json(text).dump();
}

std::string entry_text(const Tensor& tensor, std::uint64_t begin) {
  std::string extents;
  for (const std::int64_t extent : tensor.shape()) {
    if (!extents.empty()) extents += ',';
    extents += std::to_string(extent);
  }
  const std::uint64_t end = begin + std::as_bytes(tensor.values()).size();
  return R"({"dtype":"F32","shape":[)" + extents + R"(],"data_offsets":[)" + std::to_string(begin) +
         ',' + std::to_string(end) + "]}";
}

std::string header_text(const TensorMap& tensors, const Metadata& metadata) {
  std::string pairs;
  for (const auto& [key, value] : metadata) {
    if (!pairs.empty()) pairs += ',';
    pairs += json_text(key) + ':' + json_text(value);
  }
  std::string text = "{";
  if (!metadata.empty()) text += R"("__metadata__":{)" + pairs + '}';
  std::uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") base::fail(kFunction, "tensors", "another name", io::quoted(name));
    if (text.size() > 1) text += ',';
    text += json_text(name) + ':' + entry_text(tensor, begin);
    begin += std::as_bytes(tensor.values()).size();
  }
  text += '}';
  // Padded, so that readers may use the numbers where they are mapped.
  constexpr std::size_t kAlignment = 8;
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > io::kLargestHeader || tensors.size() > io::kMostTensors) {
    base::fail(kFunction, "tensors",
               "at most " + std::to_string(io::kMostTensors) + ", with names and metadata of " +
                   std::to_string(io::kLargestHeader) + " bytes, or no reader would take the file",
               std::to_string(tensors.size()) + " with " + std::to_string(text.size()));
  }
  return text;
}

}  // namespace

std::string io::safetensors_head(const TensorMap& tensors, const Metadata& metadata) {
  const std::string header = header_text(tensors, metadata);
  std::string head(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = header.size();
  std::memcpy(head.data(), &length, sizeof length);
  return head + header;
}

void write_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata,
                       const FileCheck& check) {
  const std::string head = io::safetensors_head(tensors, metadata);
  io::AtomicFile file(path);
  file.append(head);
  for (const auto& [name, tensor] : tensors) file.append(std::as_bytes(tensor.values()));
  io::commit(file, check);
}

}  // namespace headwise
