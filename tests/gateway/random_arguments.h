// Arguments of a tool call as a model may write them.
#pragma once

#include <iterator>
#include <random>
#include <string>

namespace ingot::gateway {

// An object, with pieces of others put in and its end cut off.
inline std::string RandomArguments(std::mt19937& random) {
  static const char* const kPieces[] = {"{",      "}",    "[",     "]",       ",",         ":",          "\"", "Paris",
                                        "\\",     "\\u0", "\\ud8", "'",       "\n",        "True",       "-",  "1e",
                                        "999999", "ü",    " ",     "\"b\": ", "{\"c\": [", "<tool_call>"};
  std::string arguments = R"({"a": "x\n\ud83d\ude00 é", "n": [12345678901234567890123, -2.5e3, {}], "b": null})";
  for (int i = random() % 3; i > 0; --i) {
    size_t at = 1 + random() % (arguments.size() - 1);
    while ((arguments[at] & 0xC0) == 0x80) --at;
    arguments.insert(at, kPieces[random() % std::size(kPieces)]);
  }
  if (random() % 3 > 0) return arguments;
  size_t end = 1 + random() % (arguments.size() - 1);
  while ((arguments[end] & 0xC0) == 0x80) --end;
  return arguments.substr(0, end);
}

}  // namespace ingot::gateway
