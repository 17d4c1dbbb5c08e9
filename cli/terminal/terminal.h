// What the two standard streams can show.
#pragma once

namespace headwise::terminal {

struct Stream {
  bool is_terminal = false;
  bool colour = false;  // a terminal that is not "dumb", and NO_COLOR is not set
  int width = 80;       // columns; COLUMNS if it is no terminal
  int height = 24;
};

Stream standard_output();
Stream standard_error();

}  // namespace headwise::terminal
