#include "suggestion.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace headwise::cli {

namespace {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// What Keras and PyTorch call num_heads and key_dim, --num_heads and --numheads mean as well.
std::string plain(const std::string& name) {
  std::string letters;
  for (const char c : name) {
    if (c != '-' && c != '_')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

std::string nearest(const std::string& typed, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;  // nobody mistypes more than that
  if (typed.size() > kLongest) return "";
  const std::string wanted = plain(typed);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::string name = plain(candidate);
    std::size_t far = distance(wanted, name);
    // "numheads" for "heads": a word within the other.
    if (name.size() >= 4 && wanted.ends_with(name)) far = std::min<std::size_t>(far, 1);
    if (far < best_distance) {
      best = candidate;
      best_distance = far;
    }
  }
  return best;
}

}  // namespace headwise::cli
