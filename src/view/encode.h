// Bytes as a page can hold them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headwise::view {

// zlib's format, which browsers unpack as "deflate", in base64. Throws OutOfMemory.
std::string packed(std::span<const std::uint8_t> bytes);

std::string base64(std::span<const std::uint8_t> bytes);

// "sha256-…", by which a page's policy names a script or style that may run.
std::string policy_hash(std::string_view text);

// JSON within a script element: no "<", so that nothing in it can end the element.
std::string script_safe(std::string json);

}  // namespace headwise::view
