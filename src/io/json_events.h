// A JSON text as a sequence of events, in the order of the text: nothing is built in memory that the
// handler does not ask for, and keys that appear twice are seen twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/malformed.h"

namespace headwise::io {

// Takes what its descendants expect, and throws Malformed for everything else.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return refuse("null"); }
  bool boolean(bool /*value*/) override { return refuse("a truth value"); }
  bool number_integer(number_integer_t /*value*/) override { return refuse("a negative number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return refuse("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return refuse("a number that is no integer of 64 bits");
  }
  bool string(string_t& /*value*/) override { return refuse("a text"); }
  bool binary(binary_t& /*value*/) override { return refuse("binary data"); }
  bool start_object(std::size_t /*elements*/) override { return refuse("an object"); }
  bool key(string_t& /*value*/) override { return refuse("a key"); }
  bool end_object() override { return refuse("the end of an object"); }
  bool start_array(std::size_t /*elements*/) override { return refuse("an array"); }
  bool end_array() override { return refuse("the end of an array"); }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override;

 protected:
  [[noreturn]] virtual void unexpected(const std::string& what) const = 0;

 private:
  [[nodiscard]] bool refuse(const std::string& what) const {
    unexpected(what);
    return false;
  }
};

// Throws Malformed, also for what is not JSON at all.
void parse_json(std::string_view text, JsonEvents& events);

}  // namespace headwise::io
