// HDF5 and .keras files that are damaged or made to do damage: each is one clear line, never a crash.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "headwise/io.h"
#include "io/expect_file_error.h"
#include "io/keras.h"
#include "io/keras_data.h"
#include "io/malformed.h"
#include "io/temporary_folder.h"
#include "support/dice.h"

namespace headwise {
namespace {

using test_support::data_bytes;
using test_support::data_file;
using test_support::data_folder;
using test_support::refused;

// Name of a file of the folder → words of the message.
std::map<std::string, std::string> hostile_files() {
  std::ifstream list(data_file("hostile_hdf5/messages.txt"));
  std::map<std::string, std::string> files;
  for (std::string line; std::getline(list, line);) {
    const std::size_t tab = line.find('\t');
    files.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return files;
}

TEST(HostileHdf5, EveryFileIsRefusedWithItsReason) {
  const auto files = hostile_files();
  EXPECT_GE(files.size(), 50U);
  for (const auto& [name, words] : files) {
    EXPECT_FALSE(words.empty()) << name;
    EXPECT_TRUE(refused(data_file("hostile_hdf5/" + name), words)) << name;
  }
}

TEST(HostileHdf5, EveryFileOfTheFolderIsListed) {
  const auto files = hostile_files();
  for (const auto& entry : std::filesystem::directory_iterator(data_folder() / "hostile_hdf5")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "messages.txt" || files.contains(name)) << name;
  }
}

TEST(HostileHdf5, LeavesNoChildrenBehind) {
  EXPECT_TRUE(refused(data_file("hostile_hdf5/external_link.weights.h5"), "another file"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// ---- Damage by chance ------------------------------------------------------------------------

// Opens the bytes and reads all that is listed. Returns whether anything was refused; ASSERTs what
// must hold of the rest.
struct Outcome {
  bool opened = false;
  bool crashed = false;  // in the child, that is
};

Outcome read_all(const std::string& bytes, bool is_model) {
  Outcome outcome;
  try {
    const auto memory = std::as_bytes(std::span(bytes));
    const auto file = is_model ? io::parse_keras_model("damaged", memory)
                               : io::parse_keras_weights("damaged", memory);
    outcome.opened = true;
    for (std::size_t i = 0; i < file->tensors().size(); ++i) {
      const TensorInfo& info = file->tensors()[i];
      try {
        const AnyTensor tensor = file->read(i);
        std::visit([&](const auto& values) { EXPECT_EQ(values.shape(), info.shape); }, tensor);
      } catch (const io::Malformed&) {
      }
    }
  } catch (const io::Malformed& error) {
    const std::string message = error.what();
    EXPECT_FALSE(message.empty());
    outcome.crashed = message.find("(signal ") != std::string::npos;
  }
  return outcome;
}

void cut_everywhere(const std::string& name, bool is_model, int cuts) {
  const std::string whole = data_bytes(name);
  ASSERT_TRUE(read_all(whole, is_model).opened);
  for (int i = 0; i < cuts; ++i) {
    const std::size_t length =
        whole.size() * static_cast<std::size_t>(i) / static_cast<std::size_t>(cuts);
    EXPECT_FALSE(read_all(whole.substr(0, length), is_model).opened) << length;
  }
  EXPECT_FALSE(read_all(whole.substr(0, whole.size() - 1), is_model).opened);
}

TEST(HostileHdf5, TruncatedWeights) { cut_everywhere("keras_mixed.weights.h5", false, 200); }
TEST(HostileHdf5, TruncatedNewerFormat) {
  cut_everywhere("keras_kinds_v110.weights.h5", false, 100);
}
TEST(HostileHdf5, TruncatedModel) { cut_everywhere("keras_model.keras", true, 200); }

struct Damage {
  const char* name;
  bool is_model;
  int rounds;
  std::uint64_t seed;
};

class DamagedHdf5 : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedHdf5, ChangedBytesNeverCrash) {
  const Damage& damage = GetParam();
  const std::string whole = data_bytes(damage.name);
  test_support::Dice dice(damage.seed);
  int opened = 0;
  int refused = 0;
  for (int round = 0; round < damage.rounds; ++round) {
    std::string bytes = whole;
    for (std::int64_t i = dice.between(1, 4); i > 0; --i) {
      bytes[static_cast<std::size_t>(dice.between(
          0, static_cast<std::int64_t>(bytes.size()) - 1))] = static_cast<char>(dice.bits());
    }
    ++(read_all(bytes, damage.is_model).opened ? opened : refused);
  }
  EXPECT_GT(refused, 0) << "the damage must be seen";
  RecordProperty("opened", opened);
}

INSTANTIATE_TEST_SUITE_P(Files, DamagedHdf5,
                         ::testing::Values(Damage{"keras_mixed.weights.h5", false, 1000, 1},
                                           Damage{"hostile_hdf5/deep.weights.h5", false, 300, 2},
                                           Damage{"hostile_hdf5/compressed_bomb.weights.h5", false,
                                                  300, 3},
                                           Damage{"keras_kinds_v110.weights.h5", false, 60, 4},
                                           Damage{"keras_model.keras", true, 600, 5}));

}  // namespace
}  // namespace headwise
