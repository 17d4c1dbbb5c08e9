#include "io/json_events.h"

namespace headwise::io {

bool JsonEvents::parse_error(std::size_t position, const std::string& /*last_token*/,
                             const nlohmann::detail::exception& error) {
  // "[…] parse error at line 1, column 2: syntax error while parsing value - reason; last read: …",
  // in which the last thing read may be of any length.
  const std::string_view message = error.what();
  const std::size_t dash = message.find(" - ");
  std::string reason;
  if (dash != std::string_view::npos) {
    const std::string_view rest = message.substr(dash + 3);
    reason = ", " + std::string(rest.substr(0, rest.find(';')));
  }
  malformed("no valid JSON at byte " + std::to_string(position) + reason);
}

void parse_json(std::string_view text, JsonEvents& events) {
  // The parser takes a zero for the end of the text: what follows it would be hidden.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    malformed("no valid JSON at byte " + std::to_string(zero + 1));
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

}  // namespace headwise::io
