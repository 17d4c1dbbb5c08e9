#include "accuracy/table.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <ostream>

namespace headwise::accuracy {
namespace {

double quotient(double ours, double naive) { return ours == 0.0 ? 0.0 : ours / naive; }

}  // namespace

double Row::ratio() const { return quotient(ours.rms(), naive.rms()); }
double Row::max_ratio() const { return quotient(ours.max(), naive.max()); }

void print_table(const std::vector<Row>& rows, bool all, std::ostream& stream) {
  std::vector<Row> shown = rows;
  if (!all) {
    std::map<std::string, Row> worst;
    std::vector<Row> shown_always;
    for (const Row& row : rows) {
      if (!row.held) {
        shown_always.push_back(row);
        continue;
      }
      Row& found = worst.try_emplace(row.quantity, row).first->second;
      if (!(row.ratio() <= found.ratio())) found = row;
    }
    shown.clear();
    for (const auto& [quantity, row] : worst) shown.push_back(row);
    shown.insert(shown.end(), shown_always.begin(), shown_always.end());
  }
  stream << "Error against float64: root mean square and largest, naive float32 and ours"
         << (all ? "" : "; the worst case of each quantity") << '\n'
         << std::left << std::setw(38) << "case" << std::setw(33) << "quantity" << std::right
         << std::setw(10) << "naive rms" << std::setw(10) << "ours" << std::setw(7) << "ratio"
         << std::setw(10) << "naive max" << std::setw(10) << "ours" << std::setw(7) << "ratio"
         << std::setw(9) << "allowed" << '\n';
  const auto pair = [&](double naive, double ours, double ratio) {
    stream << std::scientific << std::setprecision(1) << std::setw(10) << naive << std::setw(10)
           << ours << std::fixed << std::setprecision(2) << std::setw(7) << ratio;
  };
  for (const Row& row : shown) {
    stream << std::left << std::setw(38) << row.name << std::setw(33) << row.quantity << std::right;
    pair(row.naive.rms(), row.ours.rms(), row.ratio());
    pair(row.naive.max(), row.ours.max(), row.max_ratio());
    const char* verdict = row.held ? "  BROKEN" : "  above, and not held to it";
    stream << std::setw(9) << row.allowed << (row.ratio() <= row.allowed ? "" : verdict) << '\n';
  }
  stream << std::defaultfloat << std::flush;
}

}  // namespace headwise::accuracy
