// TemplateError: the exception of this folder, which never leaves it. Template::Parse and Template::Render convert it
// to an absl::Status. With exceptions, an interpreter of a language with exceptions takes a third of the code.
#pragma once

#include <string>
#include <utility>

namespace ingot::text::jinja {

struct TemplateError {
  enum class Kind {
    kSyntax,   // the template is not Jinja, or uses a construct that chat templates may not use
    kRuntime,  // an error that Python's jinja2 raises while rendering
    kRaised,   // raise_exception called by the template
    kLimit,    // more steps, bytes or depth than Limits allows
  };
  Kind kind;
  std::string message;
  int line = 0;  // 1-based; 0 = not known yet, the interpreter fills it in
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
