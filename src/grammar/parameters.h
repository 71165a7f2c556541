// Describes how an object's properties are written individually between delimiters instead of as JSON:
//
//   <parameter=path>                  begin KEY text_key_end
//   any raw text                      VALUE, if it is a string
//   </parameter>                      value_end
//   <parameter=count>3</parameter>    other values are written as JSON after json_key_end
//
// Strings are written as raw UTF-8 and never contain `stop`.
#pragma once

#include <string>

namespace ingot::grammar {

struct ParameterSyntax {
  std::string begin;                       // before the key
  std::string text_key_end, json_key_end;  // between the key and its value
  std::string value_end;                   // after a value; contains `stop`
  std::string stop;
  auto operator<=>(const ParameterSyntax&) const = default;
};

}  // namespace ingot::grammar
