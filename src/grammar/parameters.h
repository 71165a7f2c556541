// The properties of an object written one by one between delimiters, instead of as JSON:
//
//   <parameter=path>                  begin KEY text_key_end
//   any raw text                      VALUE
//   </parameter>                      value_end
//   <parameter=count>3</parameter>    any other value is JSON, after json_key_end
//
// String values are written as raw UTF-8 and never contain `stop`.
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
