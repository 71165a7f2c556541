// Text with ${names} in it: what recipes and verifiers are configured with.
//
// `${name}` is replaced by a variable, `${root.field.0.inner}` by a field of a JSON variable (a string as it is,
// anything else as compact JSON, numbers as they are written), `${json:name}` by either as
// JSON: a string in quotation marks, escaped. `$${` stands for a literal `${`. Any other `$` is
// itself, so shell's $HOME needs no escape. Names are checked when the template is made, fields when it is rendered.
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
  std::map<std::string, base::JsonText> json;  // ${name} is the whole as JSON, ${name.field} a part; not owned
};

class Template {
 public:
  Template() = default;

  // `known`: the allowed names; one that ends in '.' ("task.") allows any field below it. INVALID_ARGUMENT names the
  // variable that is not among them, and lists them. Each of them goes with "json:" before it too.
  static absl::StatusOr<Template> Parse(std::string_view text, const std::vector<std::string>& known);

  // INVALID_ARGUMENT names the field that the JSON variable lacks.
  absl::StatusOr<std::string> Render(const Variables& variables) const;

 private:
  struct Piece {
    bool is_variable;
    std::string text;  // literal text, or the variable's name
  };
  std::vector<Piece> pieces_;
};

// A string as it is, anything else as compact JSON.
std::string AsText(const base::JsonText& value);

}  // namespace ingot::sandbox
