// Names that an agent or a task may choose to break the code that prints them.
#pragma once

#include <string>
#include <vector>

namespace ingot::base {

inline std::vector<std::string> HostileTexts() {
  return {
      "bad\nname",                                         // ends a line of /metrics
      "x 1\n# TYPE forged counter\nforged 1",              // and adds metrics
      "two\r\n2026-01-01T00:00:00.000 E gateway: forged",  // looks like a line of the log
      "\x1b[2J\x1b[31mred\x1b]0;title\x07",                // controls the terminal
      "\xC2\x9B"
      "31m",  // the same in one character of C1
      "\xE2\x80\xAE"
      "evil\xE2\x81\xA6",  // changes the direction of the text after it
      "a\xE2\x80\x8B"
      "b\xEF\xBB\xBF\xE2\x80\xA8",     // is invisible
      std::string("nul\0byte", 8),     //
      "\xFF\xC0\xAF\xED\xA0\x80\xF5",  // is not UTF-8
      "quote\"} 1\n",                  // ends a label
      "back\\slash\\",                 //
      "tab\tback\x08\x7F",             //
      std::string(70'000, 'x'),        // is long
  };
}

}  // namespace ingot::base
