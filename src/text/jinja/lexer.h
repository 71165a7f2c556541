// Jinja source to tokens, with trim_blocks and lstrip_blocks on, as chat templates are compiled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::text::jinja {

struct Token {
  enum class Kind {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,   // text: unescaped
    kInteger,  // text: digits without underscores, prefix kept
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
  int line;
};

// The tokens, closed by kEnd. Throws TemplateError{kSyntax}.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace ingot::text::jinja
