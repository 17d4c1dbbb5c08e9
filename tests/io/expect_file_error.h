// Checks of what is said about a bad file.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <exception>
#include <string>

#include "headwise/io.h"

namespace headwise::test_support {

// The call throws a FileError about `path`: one printable line of readable length, the path in
// front, with `mentions` in it.
template <typename Call>
::testing::AssertionResult file_error(const Call& call, const std::string& path,
                                      const std::string& mentions) {
  try {
    call();
  } catch (const FileError& error) {
    const std::string text = error.what();
    if (error.path() != path || text.rfind(path + ": ", 0) != 0) {
      return ::testing::AssertionFailure() << "blames another file than " << path << ": " << text;
    }
    for (const char c : text) {
      if (std::iscntrl(static_cast<unsigned char>(c)) != 0) {
        return ::testing::AssertionFailure() << "not one printable line: " << text;
      }
    }
    if (text.size() > path.size() + 400) {
      return ::testing::AssertionFailure() << "too long to read: " << text;
    }
    if (text.find(mentions) == std::string::npos) {
      return ::testing::AssertionFailure() << "does not mention '" << mentions << "': " << text;
    }
    return ::testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << "not a FileError: " << error.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown, expected: " << mentions;
}

// Opening the file is refused.
inline ::testing::AssertionResult refused(const std::string& path, const std::string& mentions) {
  return file_error([&] { (void)TensorFile::open(path); }, path, mentions);
}

}  // namespace headwise::test_support
