#include "text/jinja/template.h"

#include <algorithm>
#include <ctime>

#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/interpreter.h"

namespace ingot::text::jinja {
namespace {

absl::Status ToStatus(const TemplateError& error) {
  std::string message = error.line > 0 ? absl::StrCat("chat template, line ", error.line, ": ") : "chat template: ";
  absl::StrAppend(&message, error.message);
  if (error.kind == TemplateError::Kind::kLimit) return absl::ResourceExhaustedError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

Template::Template(std::unique_ptr<const Ast> ast) : ast_(std::move(ast)) {}
Template::~Template() = default;

absl::StatusOr<std::shared_ptr<const Template>> Template::Parse(std::string_view source) {
  if (!IsUtf8(source)) return absl::InvalidArgumentError("chat template: it is not valid UTF-8");
  try {
    return std::shared_ptr<const Template>(new Template(std::make_unique<const Ast>(ParseTemplate(source))));
  } catch (const TemplateError& error) {
    return ToStatus(error);
  }
}

absl::StatusOr<Rendered> Template::Render(const RenderOptions& options) const {
  std::timespec now = options.now;
  if (now.tv_sec == 0 && now.tv_nsec == 0) std::timespec_get(&now, TIME_UTC);
  const Budget budget(options.limits.steps, options.limits.bytes);
  try {
    return Interpreter(*ast_, options, now).Run();
  } catch (const TemplateError& error) {
    return ToStatus(error);
  }
}

bool Template::Mentions(std::string_view name) const {
  return std::find(ast_->names.begin(), ast_->names.end(), name) != ast_->names.end();
}

}  // namespace ingot::text::jinja
