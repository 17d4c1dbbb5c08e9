// Files of the real Keras, read; and files for it, written. That Keras loads those is shown by the
// tests of `headwise convert`.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "headwise/headwise.h"
#include "headwise/io.h"
#include "io/expect_file_error.h"
#include "io/keras_data.h"
#include "io/temporary_folder.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::data_bytes;
using test_support::data_file;
using test_support::file_error;
using test_support::refuses;
using test_support::same_bits;
using test_support::TemporaryFolder;

std::vector<std::string> names_of(const TensorFile& file) {
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) names.push_back(info.name);
  return names;
}

std::string dtype_of(const TensorFile& file, const std::string& name) {
  for (const TensorInfo& info : file.tensors()) {
    if (info.name == name) return info.dtype;
  }
  return "none";
}

TensorMap all_floats(const TensorFile& file) {
  TensorMap tensors;
  for (const TensorInfo& info : file.tensors()) {
    if (info.dtype == "STRING") continue;
    AnyTensor tensor = file.read_any(info.name);
    if (auto* floats = std::get_if<Tensor>(&tensor)) tensors.emplace(info.name, std::move(*floats));
  }
  return tensors;
}

::testing::AssertionResult same_bits_of(const AnyTensor& a, const AnyTensor& b) {
  if (a.index() != b.index()) return ::testing::AssertionFailure() << "kinds differ";
  return std::visit(
      [&](const auto& values) {
        return same_bits(values, std::get<std::decay_t<decltype(values)>>(b));
      },
      a);
}

// ---- Reading ---------------------------------------------------------------------------------

// A file, and what h5py read from it.
struct Pair {
  const char* file;
  const char* expected;
  const char* format;
};

class KerasFiles : public ::testing::TestWithParam<Pair> {};

TEST_P(KerasFiles, HoldWhatH5pyReads) {
  const TensorFile file = TensorFile::open(data_file(GetParam().file));
  const TensorFile expected = TensorFile::open(data_file(GetParam().expected));
  EXPECT_EQ(file.format(), GetParam().format);
  std::vector<std::string> names = names_of(file);
  std::erase(names, "texts");  // no numbers
  ASSERT_EQ(names, names_of(expected));
  for (const std::string& name : names) {
    EXPECT_TRUE(same_bits_of(file.read_any(name), expected.read_any(name))) << name;
  }
  Metadata texts = file.metadata();
  EXPECT_EQ(texts.erase("config.json"), file.format() == "keras model" ? 1U : 0U);
  EXPECT_EQ(texts.erase("metadata.json"), file.format() == "keras model" ? 1U : 0U);
  EXPECT_EQ(texts, expected.metadata());
}

INSTANTIATE_TEST_SUITE_P(
    All, KerasFiles,
    ::testing::Values(Pair{"keras_nested.weights.h5", "keras_nested.safetensors", "keras weights"},
                      Pair{"keras_mixed.weights.h5", "keras_mixed.safetensors", "keras weights"},
                      Pair{"keras_kinds.weights.h5", "keras_kinds.safetensors", "keras weights"},
                      Pair{"keras_kinds_v110.weights.h5", "keras_kinds_v110.safetensors",
                           "keras weights"},
                      Pair{"keras_model.keras", "keras_model.safetensors", "keras model"}));

TEST(KerasWeights, NamesAndShapes) {
  const TensorFile file = TensorFile::open(data_file("keras_nested.weights.h5"));
  const std::string inner = "layers/functional/layers/multi_head_attention/";
  EXPECT_EQ(file.read("layers/multi_head_attention/query_dense/vars/0").shape(), (Shape{6, 2, 4}));
  EXPECT_EQ(file.read("layers/multi_head_attention/value_dense/vars/1").shape(), (Shape{2, 3}));
  EXPECT_EQ(file.read("layers/multi_head_attention/output_dense/vars/0").shape(), (Shape{2, 3, 6}));
  EXPECT_FALSE(file.contains("layers/multi_head_attention_1/query_dense/vars/1")) << "no bias";
  EXPECT_EQ(file.read("layers/grouped_query_attention/_key_dense/vars/0").shape(),
            (Shape{6, 1, 4}));
  EXPECT_EQ(file.read(inner + "key_dense/vars/0").shape(), (Shape{6, 2, 3}));
  EXPECT_EQ(file.metadata().at("layers/multi_head_attention/vars@name"), "erste Aufmerksamkeit ä");
  EXPECT_EQ(file.metadata().at(inner + "vars@name"), "inner attention");
  EXPECT_EQ(file.metadata().at("vars@name"), "whole");
}

TEST(KerasWeights, Precisions) {
  const TensorFile file = TensorFile::open(data_file("keras_mixed.weights.h5"));
  EXPECT_EQ(dtype_of(file, "layers/dense/vars/0"), "F16");
  EXPECT_EQ(dtype_of(file, "layers/dense_1/vars/0"), "BF16");
  EXPECT_EQ(dtype_of(file, "layers/dense_2/vars/0"), "F64");
  EXPECT_EQ(dtype_of(file, "layers/counter/vars/0"), "I64");
  EXPECT_EQ(dtype_of(file, "layers/counter/vars/1"), "BOOL");
  EXPECT_FALSE(file.metadata().contains("layers/dense_1/vars/0@dtype"))
      << "the type says it; beside float32 numbers it would be wrong";
  EXPECT_TRUE(same_bits(std::get<IndexTensor>(file.read_any("layers/counter/vars/0")),
                        IndexTensor::from({3}, {1, -2, std::int64_t{1} << 40})));
  EXPECT_TRUE(same_bits(std::get<BoolTensor>(file.read_any("layers/counter/vars/1")),
                        BoolTensor::from({2, 2}, {true, false, false, true})));
}

TEST(KerasWeights, TypesOfEveryKind) {
  const TensorFile file = TensorFile::open(data_file("keras_kinds.weights.h5"));
  for (const auto& [name, dtype] : std::map<std::string, std::string>{{"f2", "F16"},
                                                                      {"f4", "F32"},
                                                                      {"f8", "F64"},
                                                                      {"i1", "I8"},
                                                                      {"u1", "U8"},
                                                                      {"i2", "I16"},
                                                                      {"u2", "U16"},
                                                                      {"i4", "I32"},
                                                                      {"u4", "U32"},
                                                                      {"i8", "I64"},
                                                                      {"u8", "U64"},
                                                                      {"bool", "BOOL"}}) {
    EXPECT_EQ(dtype_of(file, "types/" + name), dtype);
    EXPECT_EQ(dtype_of(file, "types/" + name + "_packed"), dtype);
  }
}

TEST(KerasWeights, WhatCannotBeRead) {
  const std::string path = data_file("keras_kinds.weights.h5");
  const TensorFile file = TensorFile::open(path);
  EXPECT_EQ(dtype_of(file, "texts"), "STRING");
  EXPECT_TRUE(file_error([&] { (void)file.read_any("texts"); }, path, "type STRING"));
  EXPECT_TRUE(file_error([&] { (void)file.read("types/i4"); }, path, "expected floating-point"));
  EXPECT_TRUE(file_error([&] { (void)file.read("layers/missing/vars/0"); }, path,
                         "has no tensor 'layers/missing/vars/0'"));
}

// Packed numbers that are damaged: the list is fine, and reading them is an error about them.
TEST(KerasWeights, DamagedChunkIsFoundWhenItIsRead) {
  const TemporaryFolder folder;
  std::string bytes = data_bytes("keras_kinds.weights.h5");
  const std::string path = folder.write("a.weights.h5", bytes);
  const TensorFile sound = TensorFile::open(path);
  // Deflate streams begin with 78 5e; the last byte of each chunk is part of its checksum.
  int damaged = 0;
  for (std::size_t at = bytes.find("\x78\x5e"); at != std::string::npos;
       at = bytes.find("\x78\x5e", at + 1)) {
    bytes[at + 2] = static_cast<char>(~bytes[at + 2]);
    ++damaged;
  }
  ASSERT_GT(damaged, 10);
  const std::string bad = folder.write("b.weights.h5", bytes);
  const TensorFile file = TensorFile::open(bad);
  EXPECT_EQ(names_of(file), names_of(sound));
  EXPECT_TRUE(file_error([&] { (void)file.read("storage/packed"); }, bad,
                         "tensor 'storage/packed': cannot be unpacked"));
  EXPECT_TRUE(same_bits(file.read("storage/chunked"), sound.read("storage/chunked")));
}

TEST(KerasWeights, FileThatChangesWhileOpen) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.weights.h5", data_bytes("keras_kinds.weights.h5"));
  const TensorFile file = TensorFile::open(path);
  std::filesystem::resize_file(path, 3000);
  EXPECT_TRUE(file_error([&] { (void)file.read("types/f4"); }, path, "became shorter"));
  EXPECT_TRUE(file_error([&] { (void)file.read("storage/packed"); }, path, ""));
}

TEST(KerasWeights, ManyThreadsReadOneFile) {
  const TensorFile file = TensorFile::open(data_file("keras_kinds_v110.weights.h5"));
  const TensorMap expected = all_floats(file);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (const auto& [name, tensor] : all_floats(file)) {
        count += same_bits(tensor, expected.at(name)) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// ---- Writing ---------------------------------------------------------------------------------

TensorMap some_tensors() {
  return {{"layers/dense/vars/0", Tensor::normal({5, 7}, 1)},
          {"layers/dense/vars/1", Tensor::normal({7}, 2)},
          {"layers/empty/vars/0", Tensor::zeros({3, 0})},
          {"layers/ä b/vars/0", Tensor::normal({1, 1, 2, 1, 1, 1, 1, 2}, 3)},
          {"scalar", Tensor::full({}, -0.0F)}};
}

Metadata some_texts() {
  return {{"@title", "all of it"},
          {"layers/dense/vars@name", "a \"name\"\nof two lines, ä"},
          {"layers/dense/vars/0@unit", "m"},
          {"layers/without/vars@name", ""},
          {"vars@name", std::string(100'000, 'x')}};
}

void expect_same(const TensorFile& file, const TensorMap& tensors) {
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(file.contains(name)) << name;
    EXPECT_EQ(dtype_of(file, name), "F32");
    EXPECT_TRUE(same_bits(file.read(name), tensor)) << name;
  }
}

TEST(WriteKerasWeights, RoundTrip) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.weights.h5");
  TensorMap tensors = some_tensors();
  tensors["layers/dense/vars/1"].values()[3] = std::bit_cast<float>(0x7FC12345U);  // a NaN
  write_keras_weights(path, tensors, some_texts());
  const TensorFile file = TensorFile::open(path);
  expect_same(file, tensors);
  EXPECT_EQ(file.metadata(), some_texts());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.weights.h5"});
}

TEST(WriteKerasWeights, LargerThanThePipeAndItsFrames) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.weights.h5");
  const TensorMap tensors = {{"x", Tensor::normal({1201, 1003}, 5)}};
  write_keras_weights(path, tensors);
  expect_same(TensorFile::open(path), tensors);
}

TEST(WriteKerasWeights, NothingAtAll) {
  const TemporaryFolder folder;
  write_keras_weights(folder.path("a.weights.h5"), {});
  EXPECT_TRUE(TensorFile::open(folder.path("a.weights.h5")).tensors().empty());
}

TEST(WriteKerasWeights, RealFilesComeBack) {
  const TemporaryFolder folder;
  const TensorFile real = TensorFile::open(data_file("keras_nested.weights.h5"));
  write_keras_weights(folder.path("a.weights.h5"), all_floats(real), real.metadata());
  const TensorFile again = TensorFile::open(folder.path("a.weights.h5"));
  expect_same(again, all_floats(real));
  EXPECT_EQ(again.metadata(), real.metadata());
  // Texts of variable length in UTF-8, as h5py stores them: others come to Python as bytes.
  const std::string text_type("\x19\x01\x01\0", 4);
  EXPECT_NE(data_bytes("keras_nested.weights.h5").find(text_type), std::string::npos);
  EXPECT_NE(folder.read("a.weights.h5").find(text_type), std::string::npos);
}

TEST(WriteKeras, SameInputSameBytes) {
  const TemporaryFolder folder;
  Metadata texts = some_texts();
  write_keras_weights(folder.path("1.weights.h5"), some_tensors(), texts);
  texts["config.json"] = "{}";
  texts["metadata.json"] = "{}";
  write_keras_model(folder.path("1.keras"), some_tensors(), texts);
  // Times are counted in seconds by HDF5 and in two of them by zip.
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  write_keras_model(folder.path("2.keras"), some_tensors(), texts);
  texts.erase("config.json");
  texts.erase("metadata.json");
  write_keras_weights(folder.path("2.weights.h5"), some_tensors(), texts);
  EXPECT_EQ(folder.read("1.weights.h5"), folder.read("2.weights.h5"));
  EXPECT_EQ(folder.read("1.keras"), folder.read("2.keras"));
}

TEST(WriteKerasWeights, BadNames) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.weights.h5", "as it was");
  const auto refuses_tensors = [&](const std::vector<std::string>& names) {
    TensorMap tensors;
    for (const std::string& name : names) tensors.emplace(name, Tensor::zeros({1}));
    return refuses([&] { write_keras_weights(path, tensors); }, "write_keras_weights", "tensors");
  };
  for (const char* name : {"", "/", "/a", "a/", "a//b", ".", "a/./b", "a/..", "..", "\xFF"}) {
    EXPECT_TRUE(refuses_tensors({name})) << name;
  }
  EXPECT_TRUE(refuses_tensors({std::string("a\0b", 3)}));
  EXPECT_TRUE(refuses_tensors({std::string(5000, 'a')}));
  std::string deep = "x";
  for (int i = 0; i < 63; ++i) deep += "/x";
  EXPECT_TRUE(refuses_tensors({deep}));
  EXPECT_TRUE(refuses_tensors({"a", "a/b"}));
  EXPECT_TRUE(refuses_tensors({"a", "a b", "a/b"})) << "another name may be sorted between them";
  EXPECT_EQ(folder.read("a.weights.h5"), "as it was");
}

TEST(WriteKerasWeights, BadTexts) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.weights.h5");
  const TensorMap tensors = {{"g/x", Tensor::zeros({1})}};
  const auto refuses_text = [&](const std::string& key, const std::string& text) {
    return refuses(
        [&] {
          write_keras_weights(path, tensors, {{key, text}});
        },
        "write_keras_weights", "metadata");
  };
  for (const char* key : {"", "name", "g@", "@", "/@a", "g/@a", "../g@a", "g/x/y@a", "\xFF@a"}) {
    EXPECT_TRUE(refuses_text(key, "text")) << key;
  }
  EXPECT_TRUE(refuses_text("config.json", "{}")) << "only a model has documents";
  EXPECT_TRUE(refuses_text("g@a", "\xFF"));
  EXPECT_TRUE(refuses_text("g@a", std::string("a\0b", 3)));
  EXPECT_TRUE(folder.names().empty());
}

TEST(WriteKerasWeights, FolderThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string path = folder.path("none/a.weights.h5");
  EXPECT_TRUE(file_error([&] { write_keras_weights(path, some_tensors()); }, path, "no folder"));
}

TEST(WriteKerasModel, RoundTrip) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.keras");
  Metadata texts = some_texts();
  texts["config.json"] = R"({"class_name": "Functional", "name": "ä"})";
  texts["metadata.json"] = R"({"keras_version": "3.15.1"})";
  write_keras_model(path, some_tensors(), texts);
  const TensorFile file = TensorFile::open(path);
  EXPECT_EQ(file.format(), "keras model");
  expect_same(file, some_tensors());
  EXPECT_EQ(file.metadata(), texts);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.keras"});
}

TEST(WriteKerasModel, NeedsItsDocuments) {
  const TemporaryFolder folder;
  for (const char* only : {"config.json", "metadata.json"}) {
    EXPECT_TRUE(refuses(
        [&] {
          write_keras_model(folder.path("a.keras"), some_tensors(), {{only, "{}"}});
        },
        "write_keras_model", "metadata", only[0] == 'c' ? "metadata.json" : "config.json"));
  }
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace headwise
