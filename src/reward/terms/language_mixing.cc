#include "reward/terms/language_mixing.h"

#include <algorithm>

#include "base/config.h"
#include "base/json.h"
#include "base/json_text.h"
#include "reward/delivered.h"
#include "reward/terms/scripts.h"

namespace ingot::reward {
namespace {

// Appends the strings in a JSON value, one per line.
void AppendStrings(const base::JsonText& json, std::string& text) {
  if (json.is_string()) absl::StrAppend(&text, json.string(), "\n");
  for (const base::JsonText& item : json.items()) AppendStrings(item, text);
  for (const auto& [name, value] : json.fields()) AppendStrings(value, text);
}

std::set<std::string> ScriptsOfTask(const v1::Task& task) {
  std::string text;
  if (base::ParseJson(task.payload_json()).ok()) AppendStrings(base::JsonText(task.payload_json()), text);
  return ScriptsIn(CountLetters(NaturalLanguage(std::move(text))));
}

}  // namespace

absl::Status LanguageMixingOptions::Validate() const {
  if (language.empty() || !ScriptsOf(language).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("language_mixing.language is '", language, "': it must be empty or one of ", KnownLanguages()));
}

void Bind(base::Schema& schema, LanguageMixingOptions& o) {
  schema.Field("language", &o.language,
               "ISO 639-1 code of the allowed language; empty: the scripts that the task's strings use");
  schema.Field("allowed", &o.allowed, "share of letters from other scripts that gets no penalty",
               base::RightOpen(0, 1));
}

absl::StatusOr<TermResult> LanguageMixingTerm::Of(const EpisodeFacts& episode) const {
  TermResult result;
  const std::set<std::string> expected =
      options_.language.empty() ? ScriptsOfTask(episode.record().task()) : ScriptsOf(options_.language);
  if (expected.empty()) return result;
  for (const CallFacts& call : episode.calls) {
    if (!call.policy) continue;
    const DeliveredMessage delivered = DeliveredBy(*call.record);
    const double share = ForeignShare(absl::StrCat(delivered.reasoning, "\n", delivered.content), expected);
    if (share <= options_.allowed) continue;
    result.calls[call.id()] = -std::min(1.0, 10 * share) / static_cast<double>(episode.policy_calls());
  }
  return result;
}

}  // namespace ingot::reward
