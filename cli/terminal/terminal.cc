#include "terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace headwise::terminal {

namespace {

int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value > 0 && value < 10000 ? value : otherwise;
}

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  const char* kind = std::getenv("TERM");
  return (no_colour == nullptr || *no_colour == '\0') && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

Stream look_at(int descriptor) {
  Stream stream;
  stream.is_terminal = isatty(descriptor) != 0;
  stream.colour = stream.is_terminal && wants_colour();
  stream.width = environment_number("COLUMNS", stream.width);
  stream.height = environment_number("LINES", stream.height);
  winsize size{};
  if (stream.is_terminal && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    stream.width = size.ws_col;
    stream.height = size.ws_row;
  }
  return stream;
}

}  // namespace

Stream standard_output() { return look_at(STDOUT_FILENO); }
Stream standard_error() { return look_at(STDERR_FILENO); }

}  // namespace headwise::terminal
