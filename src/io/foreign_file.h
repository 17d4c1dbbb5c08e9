// Files that people have and Headwise does not read: what they are, and what to do about it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/zip_archive.h"

namespace headwise::io {

// By the first bytes of a file; nullopt: nothing well-known.
std::optional<std::string> foreign_file(std::string_view first_bytes);
// Of a zip that is neither npz nor .keras.
std::optional<std::string> foreign_zip(const ZipArchive& archive);

}  // namespace headwise::io
