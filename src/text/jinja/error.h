// Defines the exception used in this folder. Template::Parse and Template::Render convert it to an absl::Status.
// Exceptions make this code two thirds shorter, because the interpreted language has exceptions too.
#pragma once

#include <string>
#include <utility>

namespace ingot::text::jinja {

struct TemplateError {
  enum class Kind {
    kSyntax,   // the template is not valid Jinja, or uses a construct that chat templates may not use
    kRuntime,  // an error that Python's jinja2 would raise while rendering
    kRaised,   // the template called raise_exception
    kLimit,    // exceeded the steps, bytes, or depth in Limits
  };
  Kind kind;
  std::string message;
  int line = 0;  // 1-based; 0 = not known yet, and set by the interpreter
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
