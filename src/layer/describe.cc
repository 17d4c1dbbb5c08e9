#include <algorithm>
#include <string>

#include "base/check.h"
#include "headwise/weights.h"

namespace headwise {

namespace {

std::string with_thousands(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

std::string left(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

}  // namespace

WeightTable describe(const AttentionConfig& config) {
  validate(config);
  WeightTable table;
  for (const WeightField& field : weight_fields()) {
    if (!field.present(config)) continue;
    const Shape flat = field.flat_shape(config);
    table.rows.push_back({field.name, field.head_shape(config), flat, flat.element_count()});
    const auto total = base::checked_add(table.total, flat.element_count());
    if (!total) base::fail("describe", "config", "a number of weights that fits 64 bits", "more");
    table.total = *total;
  }
  return table;
}

std::string WeightTable::to_string() const {
  std::size_t name = 4;
  std::size_t shape = 5;
  std::size_t flat = 4;
  const std::size_t count = std::max<std::size_t>(7, with_thousands(total).size());
  for (const WeightRow& row : rows) {
    name = std::max(name, row.name.size());
    shape = std::max(shape, row.shape.to_string().size());
    flat = std::max(flat, row.flat_shape.to_string().size());
  }
  const auto line = [&](const std::string& a, const std::string& b, const std::string& c,
                        const std::string& d) {
    return left(a, name) + "  " + left(b, shape) + "  " + left(c, flat) + "  " + right(d, count) +
           "\n";
  };
  std::string text = line("name", "shape", "flat", "numbers");
  for (const WeightRow& row : rows) {
    text += line(row.name, row.shape.to_string(), row.flat_shape.to_string(),
                 with_thousands(row.count));
  }
  return text + line("total", std::to_string(rows.size()) + " tensors", "", with_thousands(total));
}

}  // namespace headwise
