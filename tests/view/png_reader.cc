#include "png_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace headwise::test_view {

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string("PNG: ") + what);
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  }
  return value;
}

int paeth(int left, int above, int corner) {
  const int guess = left + above - corner;
  const int from_left = std::abs(guess - left);
  const int from_above = std::abs(guess - above);
  const int from_corner = std::abs(guess - corner);
  if (from_left <= from_above && from_left <= from_corner) return left;
  return from_above <= from_corner ? above : corner;
}

// Undoes the filters of the rows, in place; each row begins with the number of its filter.
void unfilter(std::vector<unsigned char>& data, std::size_t rows, std::size_t row_bytes,
              std::size_t pixel_bytes) {
  for (std::size_t row = 0; row < rows; ++row) {
    unsigned char* now = data.data() + row * (row_bytes + 1) + 1;
    const unsigned char* before = row == 0 ? nullptr : now - row_bytes - 1;
    const int filter = now[-1];
    require(filter <= 4, "unknown filter");
    for (std::size_t i = 0; i < row_bytes; ++i) {
      const int left = i >= pixel_bytes ? now[i - pixel_bytes] : 0;
      const int above = before != nullptr ? before[i] : 0;
      const int corner = before != nullptr && i >= pixel_bytes ? before[i - pixel_bytes] : 0;
      const int guesses[] = {0, left, above, (left + above) / 2, paeth(left, above, corner)};
      now[i] = static_cast<unsigned char>(now[i] + guesses[filter]);
    }
  }
}

}  // namespace

std::int64_t Picture::count(std::uint32_t colour, std::int64_t x, std::int64_t y,
                            std::int64_t across, std::int64_t down) const {
  std::int64_t found = 0;
  for (std::int64_t row = y; row < y + down; ++row) {
    for (std::int64_t column = x; column < x + across; ++column) {
      found += at(column, row) == colour ? 1 : 0;
    }
  }
  return found;
}

Picture read_png(const std::string& bytes) {
  require(bytes.starts_with("\x89PNG\r\n\x1a\n"), "no signature");
  Picture picture;
  std::string packed;
  std::size_t pixel_bytes = 0;
  for (std::size_t at = 8; at < bytes.size();) {
    const std::size_t length = big_endian(bytes, at);
    const std::string kind = bytes.substr(at + 4, 4);
    require(at + 12 + length <= bytes.size(), "cut short");
    const auto* checked = reinterpret_cast<const Bytef*>(bytes.data()) + at + 4;
    require(crc32(0, checked, static_cast<uInt>(length + 4)) == big_endian(bytes, at + 8 + length),
            "wrong checksum");
    if (kind == "IHDR") {
      picture.width = big_endian(bytes, at + 8);
      picture.height = big_endian(bytes, at + 12);
      require(bytes[at + 16] == 8 && (bytes[at + 17] == 2 || bytes[at + 17] == 6), "not 8-bit RGB");
      pixel_bytes = bytes[at + 17] == 2 ? 3 : 4;
    }
    if (kind == "IDAT") packed += bytes.substr(at + 8, length);
    at += 12 + length;
  }
  const auto rows = static_cast<std::size_t>(picture.height);
  const std::size_t row_bytes = static_cast<std::size_t>(picture.width) * pixel_bytes;
  std::vector<unsigned char> data(rows * (row_bytes + 1));
  uLongf size = data.size();
  require(uncompress(data.data(), &size, reinterpret_cast<const Bytef*>(packed.data()),
                     packed.size()) == Z_OK &&
              size == data.size(),
          "wrong amount of pixels");
  unfilter(data, rows, row_bytes, pixel_bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    const unsigned char* from = data.data() + row * (row_bytes + 1) + 1;
    for (std::size_t i = 0; i < row_bytes; i += pixel_bytes) {
      picture.pixels.push_back(static_cast<std::uint32_t>(from[i]) << 16U |
                               static_cast<std::uint32_t>(from[i + 1]) << 8U | from[i + 2]);
    }
  }
  return picture;
}

}  // namespace headwise::test_view
