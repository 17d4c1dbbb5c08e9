#include "io/npy_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "io/checked_shape.h"
#include "io/malformed.h"
#include "io/python_literal.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

// numpy's own limit is 10,000 unless told otherwise; a structured type may need more.
constexpr std::uint32_t kLargestHeader = 1U << 16U;

void read_exactly(ByteSource& source, std::span<std::byte> to) {
  if (source.read(to) != to.size()) malformed("ends within the npy header");
}

struct Numpy {
  char kind;
  std::size_t bytes;
  NumberType type;
};
constexpr std::array<Numpy, 12> kNumpyTypes = {{{'b', 1, NumberType::Bool},
                                                {'i', 1, NumberType::I8},
                                                {'u', 1, NumberType::U8},
                                                {'i', 2, NumberType::I16},
                                                {'u', 2, NumberType::U16},
                                                {'i', 4, NumberType::I32},
                                                {'u', 4, NumberType::U32},
                                                {'i', 8, NumberType::I64},
                                                {'u', 8, NumberType::U64},
                                                {'f', 2, NumberType::F16},
                                                {'f', 4, NumberType::F32},
                                                {'f', 8, NumberType::F64}}};

// "<f4": byte order, kind, bytes.
std::optional<NumberFormat> number_format(std::string_view descr) {
  if (descr.size() != 3 || descr[2] < '1' || descr[2] > '8') return std::nullopt;
  const auto bytes = static_cast<std::size_t>(descr[2] - '0');
  for (const Numpy& known : kNumpyTypes) {
    if (known.kind != descr[1] || known.bytes != bytes) continue;
    const char order = descr[0];
    if (order == '|' && bytes == 1) return NumberFormat{.type = known.type};
    if (order == '<' || order == '=' || order == '>') {
      return NumberFormat{.type = known.type, .big_endian = order == '>'};
    }
  }
  return std::nullopt;
}

void require_plausible(const std::string& descr) {
  if (descr.empty()) malformed("the npy header has an empty descr");
  constexpr std::string_view kOrders = "<>=|[";  // a list describes a record
  if (descr.size() < 2 || kOrders.find(descr[0]) == std::string_view::npos) {
    malformed("the npy header has the unknown descr " + io::quoted(descr));
  }
}

NpyHeader parse(std::string_view text) {
  PythonLiteral literal(text);
  std::optional<std::string> descr;
  std::optional<bool> column_major;
  std::optional<std::vector<std::uint64_t>> extents;
  const auto once = [](const auto& value, const char* key) {
    if (value) malformed(std::string("the npy header has the key ") + key + " twice");
  };
  literal.dictionary([&](const std::string& key) {
    if (key == "descr") {
      once(descr, "descr");
      descr = literal.text_or_list();
    } else if (key == "fortran_order") {
      once(column_major, "fortran_order");
      column_major = literal.boolean();
    } else if (key == "shape") {
      once(extents, "shape");
      extents = literal.tuple();
    } else {
      malformed("the npy header has the unknown key " + io::quoted(key));
    }
  });
  if (!descr) malformed("the npy header has no descr");
  if (!column_major) malformed("the npy header has no fortran_order");
  if (!extents) malformed("the npy header has no shape");
  require_plausible(*descr);
  NpyHeader header{*descr, number_format(*descr), checked_shape(*extents)};
  if (header.numbers) {
    header.numbers->column_major = *column_major;
    header.dtype = name_of(header.numbers->type);
  }
  return header;
}

}  // namespace

std::uint64_t NpyHeader::data_bytes() const {
  return checked_bytes(shape, 8 * bytes_of(numbers->type));
}

NpyHeader read_npy_header(ByteSource& source) {
  std::array<std::byte, 8> start{};  // magic number, version
  read_exactly(source, start);
  if (std::memcmp(start.data(), kNpyMagic.data(), kNpyMagic.size()) != 0) {
    malformed("does not begin as an npy array does");
  }
  const auto version = std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3) {
    malformed("npy version " + std::to_string(version) + "; 1, 2 and 3 can be read");
  }
  // Version 2 made room for longer headers, version 3 for other letters in them.
  std::array<std::byte, 4> length_bytes{};
  const std::size_t length_size = version == 1 ? 2 : 4;
  read_exactly(source, std::span(length_bytes).first(length_size));
  std::uint32_t length = 0;
  std::memcpy(&length, length_bytes.data(), length_bytes.size());
  if (length > kLargestHeader) {
    malformed("the npy header claims " + std::to_string(length) + " bytes, more than " +
              std::to_string(kLargestHeader));
  }
  std::string text(length, ' ');
  read_exactly(source, std::as_writable_bytes(std::span(text)));
  NpyHeader header = parse(text);
  header.bytes = start.size() + length_size + length;
  return header;
}

void require_readable(const NpyHeader& header) {
  if (header.numbers) return;
  if (header.dtype.starts_with('[')) malformed("holds records, not numbers");
  switch (header.dtype[1]) {
    case 'O':
      malformed("holds Python objects, which are never unpickled: save numbers instead");
    case 'U':
    case 'S':
    case 'a':
      malformed("holds texts, not numbers");
    case 'c':
      malformed("holds complex numbers");
    case 'V':
      malformed("holds bytes of no known type: save bfloat16, if that is what it is, as float32");
    default:
      malformed("numbers of numpy's type " + io::quoted(header.dtype) + " cannot be read");
  }
}

std::string npy_header_text(const Shape& shape) {
  // numpy leaves room for the first extent to grow, so that arrays can be appended to.
  constexpr std::size_t kGrowth = 21;
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kBefore = 10;  // magic number, version, length
  std::string extents;
  for (const std::int64_t extent : shape) {
    if (!extents.empty()) extents += ", ";
    extents += std::to_string(extent);
  }
  if (shape.rank() == 1) extents += ',';
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + extents + "), }";
  if (shape.rank() > 0) text.append(kGrowth - std::to_string(shape[0]).size(), ' ');
  const std::size_t used = kBefore + text.size() + 1;
  text.append(kAlignment - used % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());  // eight extents at most: it fits
  std::string header(kNpyMagic);
  header += {'\1', '\0', static_cast<char>(length & 0xFFU), static_cast<char>(length >> 8U)};
  return header + text;
}

}  // namespace headwise::io
