// Parses and renders strings with ${names}, as used in recipe and verifier configurations.
//
//   ${name}                 a variable
//   ${root.field.0.inner}   a field of a JSON variable: strings as plain text, other values as compact JSON. Numbers
//                           keep their original digits
//   ${json:name}            a variable or field as JSON; strings are quoted and escaped
//   $${                     a literal ${
//
// Any other `$` is literal, so a shell's $HOME does not need escaping. Parse checks names, and Render checks fields.
// Immutable and thread safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/status.h"

namespace ingot::sandbox {

struct Variables {
  std::map<std::string, std::string> text;  // ${name}
  // ${name} is the entire value, and ${name.field} is part of it; the JSON text is not owned
  std::map<std::string, base::JsonText> json;
};

class Template {
 public:
  Template() = default;

  // `known` lists the allowed names. Each is also allowed with the prefix "json:". A name that ends in '.' ("task.")
  // allows any field below it. Returns INVALID_ARGUMENT, with the invalid variable and the allowed names, if the text
  // uses any other name.
  static absl::StatusOr<Template> Parse(std::string_view text, const std::vector<std::string>& known);

  // Returns whether the text uses the variable `root` or a field of it.
  bool Uses(std::string_view root) const;

  // Returns INVALID_ARGUMENT, naming the field, if a JSON variable lacks a field.
  absl::StatusOr<std::string> Render(const Variables& variables) const;

 private:
  struct Piece {
    bool is_variable;
    std::string text;  // literal text or a variable's name
  };
  std::vector<Piece> pieces_;
};

// Returns strings as plain text, and other values as compact JSON.
std::string AsText(const base::JsonText& value);

}  // namespace ingot::sandbox
