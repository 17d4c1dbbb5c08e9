// npz: a zip of npy arrays.
#pragma once

#include <memory>
#include <string>

#include "io/reader.h"
#include "io/zip_archive.h"
#include "io/zip_writer.h"

namespace headwise::io {

// `path` is what the reader says it reads. Throws Malformed.
std::unique_ptr<Reader> open_npz(const std::string& path, ZipArchive archive);

// Writes all of an npz. Throws ArgumentError for names that an archive cannot have.
void write_npz(const ZipWriter::WriteAt& write_at, const TensorMap& tensors);

}  // namespace headwise::io
