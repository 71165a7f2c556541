// A Template is text with ${names} in it, used in the configuration of recipes and verifiers.
//
//   ${name}                 a variable
//   ${root.field.0.inner}   a field of a JSON variable: a string as it is, any other value as compact JSON; numbers
//                           keep the digits that they were written with
//   ${json:name}            a variable or field as JSON: a string in quotation marks, escaped
//   $${                     a literal ${
//
// Any other `$` stands for itself, so that a shell's $HOME needs no escape. Parse checks names, Render checks fields.
// Immutable, thread safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/status.h"

namespace ingot::sandbox {

struct Variables {
  std::map<std::string, std::string> text;     // ${name}
  std::map<std::string, base::JsonText> json;  // ${name} is the whole value, ${name.field} a part; text not owned
};

class Template {
 public:
  Template() = default;

  // `known`: the allowed names, each also with "json:" in front; a name that ends in '.' ("task.") allows any field
  // below it. INVALID_ARGUMENT names the variable that is not allowed and lists the allowed ones.
  static absl::StatusOr<Template> Parse(std::string_view text, const std::vector<std::string>& known);

  // True if the text names the variable `root` or a field of it.
  bool Uses(std::string_view root) const;

  // INVALID_ARGUMENT names the field that the JSON variable lacks.
  absl::StatusOr<std::string> Render(const Variables& variables) const;

 private:
  struct Piece {
    bool is_variable;
    std::string text;  // literal text, or the variable's name
  };
  std::vector<Piece> pieces_;
};

// A string as it is, any other value as compact JSON.
std::string AsText(const base::JsonText& value);

}  // namespace ingot::sandbox
