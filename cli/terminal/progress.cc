#include "terminal/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "terminal/printable.h"
#include "terminal/terminal.h"
#include "terminal/text.h"

namespace headwise::terminal {

ProgressBar::ProgressBar(std::string what, std::int64_t steps)
    : what_(std::move(what)), steps_(std::max<std::int64_t>(steps, 1)) {
  is_terminal_ = standard_error().is_terminal;
}

ProgressBar::~ProgressBar() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(std::int64_t done, const std::string& now) {
  using std::chrono::milliseconds;
  const auto time = Clock::now();
  if (!is_terminal_ || time - start_ < milliseconds(1000) || time - shown_ < milliseconds(100)) {
    return;
  }
  constexpr std::int64_t kCells = 24;
  const std::int64_t filled = std::clamp<std::int64_t>(kCells * done / steps_, 0, kCells);
  std::string line = what_ + " [";
  for (std::int64_t i = 0; i < kCells; ++i) line += i < filled ? "█" : "·";
  line += "] " + std::to_string(done) + "/" + std::to_string(steps_);
  if (!now.empty()) line += "  " + printable(now);
  const auto room = static_cast<std::size_t>(std::max(standard_error().width - 1, 10));
  while (columns(line) > room) {  // a longer line would wrap and stay
    while ((static_cast<unsigned char>(line.back()) & 0xC0U) == 0x80U) line.pop_back();
    line.pop_back();
  }
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  shown_ = time;
  visible_ = true;
}

}  // namespace headwise::terminal
