#include "app/run/kept_template.h"

#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace ingot::app {
namespace {

constexpr char kCopy[] = "chat_template.jinja";

}  // namespace

absl::Status KeepChatTemplate(const ModelOptions& model, const RunDir& dir) {
  if (model.chat_template.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> text = base::ReadFile(model.chat_template);
  if (!text.ok()) return base::Annotate(text.status(), "model.chat_template");
  return dir.WriteFile(kCopy, *text);
}

bool ChatTemplateChanged(const ModelOptions& model, const std::string& run_dir) {
  if (model.chat_template.empty()) return false;
  const absl::StatusOr<std::string> now = base::ReadFile(model.chat_template);
  const absl::StatusOr<std::string> kept = base::ReadFile(absl::StrCat(run_dir, "/", kCopy));
  return now.ok() && kept.ok() && *now != *kept;
}

void UseKeptTemplate(const std::string& run_dir, ModelOptions& model) {
  const std::string copy = absl::StrCat(run_dir, "/", kCopy);
  std::error_code error;
  if (!model.chat_template.empty() && std::filesystem::exists(copy, error)) model.chat_template = copy;
}

}  // namespace ingot::app
