#include "text/chat/template_variables.h"
#include "base/big_integer.h"
#include "base/printable.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ingot::text {
namespace {

// Set by each conversation, the tokenizer's files, or the template engine.
constexpr std::array<std::string_view, 19> kReserved = {"messages",  "tools",           "add_generation_prompt",
                                                        "documents", "bos_token",       "eos_token",
                                                        "unk_token", "sep_token",       "pad_token",
                                                        "cls_token", "mask_token",      "range",
                                                        "dict",      "namespace",       "joiner",
                                                        "cycler",    "raise_exception", "strftime_now",
                                                        "loop"};

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view kDigits = "0123456789";

bool IsName(std::string_view name) {
  if (name.empty() || kDigits.find(name.front()) != std::string_view::npos) return false;
  return std::ranges::all_of(name, [](char c) {
    return kLetters.find(c) != std::string_view::npos || kDigits.find(c) != std::string_view::npos;
  });
}

}  // namespace

absl::Status CheckTemplateVariables(const base::json::object& variables) {
  for (const auto& variable : variables) {
    const std::string_view name(variable.key().data(), variable.key().size());
    if (!IsName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", base::Shown(name),
                       "' is not a variable name: use letters, digits, and _, and do not start with a digit"));
    }
    if (std::ranges::find(kReserved, name) != kReserved.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", base::View(name), "' is set when chat templates are rendered: remove it"));
    }
    const base::json::value& value = variable.value();
    const bool is_number = value.is_number() || !base::BigInteger(value).empty();
    if (!value.is_bool() && !is_number && !value.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("the value of '", base::Shown(name),
                                                     "' must be a bool, a number, or a string, not ",
                                                     base::Shown(base::PrintJson(value))));
    }
  }
  return absl::OkStatus();
}

void AddTemplateVariables(const base::json::object& variables, Conversation& conversation) {
  for (const auto& variable : variables) conversation.template_variables.emplace(variable.key(), variable.value());
}

}  // namespace ingot::text
