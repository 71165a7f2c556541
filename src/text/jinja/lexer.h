// Splits Jinja source into tokens, with trim_blocks and lstrip_blocks on, as for chat templates.
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
    kInteger,  // text: digits without underscores, with their prefix
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
  int line;
};

// All tokens, ending with kEnd. Throws TemplateError{kSyntax}.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace ingot::text::jinja
