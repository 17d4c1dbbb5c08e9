#include "view/encode.h"

#include <glib.h>
#include <zlib.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "headwise/error.h"

namespace headwise::view {

namespace {

struct Release {
  void operator()(gchar* text) const noexcept { g_free(text); }
  void operator()(GChecksum* checksum) const noexcept { g_checksum_free(checksum); }
};

}  // namespace

std::string base64(std::span<const std::uint8_t> bytes) {
  const std::unique_ptr<gchar, Release> text(g_base64_encode(bytes.data(), bytes.size()));
  return text.get();
}

std::string packed(std::span<const std::uint8_t> bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::vector<std::uint8_t> result(size);
  if (compress2(result.data(), &size, bytes.data(), static_cast<uLong>(bytes.size()),
                Z_DEFAULT_COMPRESSION) != Z_OK) {
    throw OutOfMemory(result.size());
  }
  return base64(std::span<const std::uint8_t>(result).first(size));
}

std::string policy_hash(std::string_view text) {
  const std::unique_ptr<GChecksum, Release> checksum(g_checksum_new(G_CHECKSUM_SHA256));
  g_checksum_update(checksum.get(), reinterpret_cast<const guchar*>(text.data()),
                    static_cast<gssize>(text.size()));
  std::uint8_t digest[32];
  gsize size = sizeof digest;
  g_checksum_get_digest(checksum.get(), digest, &size);
  return "sha256-" + base64(std::span<const std::uint8_t>(digest, size));
}

std::string script_safe(std::string json) {
  // Within JSON these characters stand in strings only, where an escape means the same.
  std::string safe;
  safe.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const std::string_view rest = std::string_view(json).substr(i, 3);
    if (c == '<') {
      safe += "\\u003c";
    } else if (c == '>') {
      safe += "\\u003e";
    } else if (c == '&') {
      safe += "\\u0026";
    } else if (rest == "\u2028" || rest == "\u2029") {  // line ends for scripts
      safe += rest == "\u2028" ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace headwise::view
