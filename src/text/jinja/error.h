// How this folder fails inside: an exception that never leaves it. Template::Parse and Template::Render turn it into an
// absl::Status; an interpreter of a language with exceptions is a third of the size with them.
#pragma once

#include <string>
#include <utility>

namespace ingot::text::jinja {

struct TemplateError {
  enum class Kind {
    kSyntax,   // the template is not Jinja, or uses what chat templates may not
    kRuntime,  // what Python's jinja2 raises while rendering
    kRaised,   // raise_exception of the template itself
    kLimit,    // more steps, bytes or depth than Limits allows
  };
  Kind kind;
  std::string message;
  int line = 0;  // 1-based; 0: not known yet, the interpreter fills it in on the way out
};

[[noreturn]] inline void Fail(std::string message, int line = 0) {
  throw TemplateError{TemplateError::Kind::kRuntime, std::move(message), line};
}
[[noreturn]] inline void FailSyntax(std::string message, int line) {
  throw TemplateError{TemplateError::Kind::kSyntax, std::move(message), line};
}
[[noreturn]] inline void FailLimit(std::string message) {
  throw TemplateError{TemplateError::Kind::kLimit, std::move(message), 0};
}

}  // namespace ingot::text::jinja
