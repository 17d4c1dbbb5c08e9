// Files of the real numpy and safetensors, read by Headwise; files of Headwise, read by them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>

#include "headwise/io.h"
#include "io/project_file.h"
#include "io/temporary_folder.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::same_bits;

class RealPackages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_support::project_file(".venv/bin/python")) {
      GTEST_SKIP() << "no frameworks in .venv: scripts/install.sh frameworks";
    }
  }
  // Runs real_packages.py; true if it succeeded.
  bool python(const std::string& command) {
    const auto quoted = [](const std::string& text) { return " '" + text + "'"; };
    const std::string line =
        "PYTHONDONTWRITEBYTECODE=1" +
        quoted(test_support::project_file(".venv/bin/python")->string()) +
        quoted(test_support::project_file("tests/io/real_packages.py")->string()) + " " + command +
        quoted(folder_.path());
    return std::system(line.c_str()) == 0;
  }

  // Every tensor is that of `expected`; returns the floating-point ones.
  static TensorMap expect_same(const TensorFile& file, const TensorFile& expected) {
    TensorMap floats;
    for (const TensorInfo& info : file.tensors()) {
      AnyTensor tensor = file.read_any(info.name);
      const AnyTensor other = expected.read_any(info.name);
      EXPECT_EQ(tensor.index(), other.index()) << info.name;
      std::visit(
          [&](auto& x) {
            const auto* y = std::get_if<std::decay_t<decltype(x)>>(&other);
            EXPECT_TRUE(y != nullptr && same_bits(x, *y)) << file.path() << " " << info.name;
          },
          tensor);
      if (auto* numbers = std::get_if<Tensor>(&tensor)) floats[info.name] = std::move(*numbers);
    }
    return floats;
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(RealPackages, ReadEachOthersFiles) {
  ASSERT_TRUE(python("make"));
  const TensorFile expected = TensorFile::open(folder_.path("expected.safetensors"));
  const TensorFile given = TensorFile::open(folder_.path("given.safetensors"));
  EXPECT_EQ(given.tensors().size(), expected.tensors().size());
  const TensorMap floats = expect_same(given, expected);
  write_safetensors(folder_.path("ours.safetensors"), floats, given.metadata());

  const TensorFile stored = TensorFile::open(folder_.path("given-stored.npz"));
  EXPECT_EQ(stored.tensors().size(), expected.tensors().size() - 2);
  write_npz(folder_.path("ours.npz"), expect_same(stored, expected));
  expect_same(TensorFile::open(folder_.path("given-turned.npz")), expected);

  for (std::size_t i = 0; i < stored.tensors().size(); ++i) {
    const std::string number = std::to_string(i);
    const auto array = TensorFile::open(folder_.path("given-" + number + ".npy"));
    const TensorMap read =
        expect_same(array, TensorFile::open(folder_.path("expected-" + number + ".safetensors")));
    if (!read.empty()) write_npy(folder_.path("ours-" + number + ".npy"), read.at(""));
  }
  EXPECT_TRUE(python("check"));
}

}  // namespace
}  // namespace headwise
