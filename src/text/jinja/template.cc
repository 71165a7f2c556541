#include "text/jinja/template.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/printable.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/flag_split.h"
#include "text/jinja/interpreter.h"

namespace ingot::text::jinja {
namespace {

absl::Status ToStatus(const TemplateError& error) {
  std::string message = error.line > 0 ? absl::StrCat("chat template, line ", error.line, ": ") : "chat template: ";
  absl::StrAppend(&message, base::CutMessage(error.message));
  if (error.kind == TemplateError::Kind::kLimit) return absl::ResourceExhaustedError(message);
  return absl::InvalidArgumentError(message);
}

constexpr char kPromptFlag[] = "add_generation_prompt";

std::unique_ptr<const FlagSplit> PromptSplit(const Ast& ast) {
  const auto split = SplitAt(ast, kPromptFlag);
  return split.has_value() ? std::make_unique<const FlagSplit>(*split) : nullptr;
}

std::timespec Now(const RenderOptions& options) {
  std::timespec now = options.now;
  if (now.tv_sec == 0 && now.tv_nsec == 0) std::timespec_get(&now, TIME_UTC);
  return now;
}

}  // namespace

Template::Template(std::unique_ptr<const Ast> ast) : ast_(std::move(ast)), prompt_split_(PromptSplit(*ast_)) {}
Template::~Template() = default;

absl::StatusOr<std::shared_ptr<const Template>> Template::Parse(std::string_view source) {
  if (!base::IsValidUtf8(source)) return absl::InvalidArgumentError("chat template: not valid UTF-8");
  try {
    return std::shared_ptr<const Template>(new Template(std::make_unique<const Ast>(ParseTemplate(source))));
  } catch (const TemplateError& error) {
    return ToStatus(error);
  }
}

absl::StatusOr<RenderedText> Template::Render(const RenderOptions& options) const {
  const Budget budget(options.limits.steps, options.limits.bytes);
  try {
    return Interpreter(*ast_, options, Now(options)).Run();
  } catch (const TemplateError& error) {
    return ToStatus(error);
  }
}

absl::StatusOr<PromptRendering> Template::RenderAtPrompt(const RenderOptions& options,
                                                         bool add_generation_prompt) const {
  PromptRendering out;
  if (prompt_split_ == nullptr) {
    RenderOptions one = options;
    one.now = Now(options);
    one.variables.emplace_back(kPromptFlag, Value(false));
    INGOT_ASSIGN_OR_RETURN(RenderedText without, Render(one));
    one.variables.back().second = Value(true);
    absl::StatusOr<RenderedText> with = Render(one);
    out.with_prompt = with.status();
    if (!with.ok() && add_generation_prompt) return out.with_prompt;
    if (with.ok()) {
      const std::string &a = without.text, &b = with->text;
      out.prompt_begin = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
      out.prompt = b.substr(out.prompt_begin);
    }
    out.rendered = add_generation_prompt ? *std::move(with) : std::move(without);
    return out;
  }
  const Budget budget(options.limits.steps, options.limits.bytes);
  try {
    Interpreter interpreter(*ast_, options, Now(options));
    if (prompt_split_->slot < 0) {
      out.rendered = interpreter.Run();
      out.prompt_begin = out.rendered.text.size();
      return out;
    }
    std::optional<TemplateError> rejected;
    out = interpreter.RunToPrompt(prompt_split_->slot, prompt_split_->common, add_generation_prompt, rejected);
    if (rejected.has_value()) out.with_prompt = ToStatus(*rejected);
    if (!out.with_prompt.ok() && add_generation_prompt) return out.with_prompt;
    return out;
  } catch (const TemplateError& error) {
    return ToStatus(error);
  }
}

bool Template::Mentions(std::string_view name) const {
  return std::find(ast_->names.begin(), ast_->names.end(), name) != ast_->names.end();
}

}  // namespace ingot::text::jinja
