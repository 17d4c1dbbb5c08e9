// Reads PNG files of 8 bits a channel, so that tests can look at pixels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace headwise::test_view {

struct Picture {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint32_t> pixels;  // 0x00RRGGBB

  [[nodiscard]] std::uint32_t at(std::int64_t x, std::int64_t y) const {
    return pixels.at(static_cast<std::size_t>(y * width + x));
  }
  // How many pixels of the rectangle have the colour.
  [[nodiscard]] std::int64_t count(std::uint32_t colour, std::int64_t x, std::int64_t y,
                                   std::int64_t across, std::int64_t down) const;
};

// Throws std::runtime_error for anything that is not such a file; checks every checksum.
Picture read_png(const std::string& bytes);

}  // namespace headwise::test_view
