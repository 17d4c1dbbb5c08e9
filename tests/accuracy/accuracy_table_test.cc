// The promise: against float64, the error is at most 2× (gradients 3×) that of a naive float32 run.
// `make accuracy` prints the whole table.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "accuracy/layer_accuracy.h"
#include "accuracy/op_accuracy.h"
#include "accuracy/table.h"

namespace headwise::accuracy {
namespace {

class AccuracyTable : public ::testing::Test {
 protected:
  static void TearDownTestSuite() {
    print_table(rows_, std::getenv("HEADWISE_ACCURACY_TABLE") != nullptr, std::cout);
  }

  static void hold(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      if (row.held) {
        EXPECT_LE(row.ratio(), row.allowed) << row.name << ", " << row.quantity;
      }
      rows_.push_back(row);
    }
  }
  static inline std::vector<Row> rows_;
};

TEST_F(AccuracyTable, AttentionKeepsTheBound) {
  for (const OpAccuracyCase& c : op_accuracy_cases()) hold(measure(c));
}

TEST_F(AccuracyTable, LayersKeepTheBound) {
  for (const LayerAccuracyCase& c : layer_accuracy_cases()) hold(measure(c));
}

}  // namespace
}  // namespace headwise::accuracy
