#include "view/json/alternatives_json.h"

#include <charconv>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tree/alternatives.h"
#include "view/safe_text.h"

namespace ingot::view {

void AppendNumber(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::general, 4);
  out.append(digits, end.ptr);
}

int32_t AlternativesJson::Append(const v1::Segment& segment) {
  const int32_t each = tree::AlternativesPerId(segment);
  if (each <= 0) return 0;
  for (int i = 0; i < segment.alternative_ids_size(); ++i) {
    const int32_t id = segment.alternative_ids(i);
    absl::StrAppend(&ids_, ids_.empty() ? "" : ",", id);
    if (!logprobs_.empty()) logprobs_ += ',';
    AppendNumber(segment.alternative_logprobs(i), logprobs_);
    const auto [text, added] = texts_.try_emplace(id);
    if (added) text->second = SafeText(tokenizer_.DecodeText(std::span(&id, 1), false));
  }
  return each;
}

std::string AlternativesJson::Members() const {
  if (ids_.empty()) return "";
  std::string texts;
  for (const auto& [id, text] : texts_) {
    absl::StrAppend(&texts, texts.empty() ? "\"" : ",\"", id, "\":");
    base::AppendJsonString(text, texts);
  }
  return absl::StrCat(",\"alternative\":[", ids_, "],\"alternative_logprob\":[", logprobs_, "],\"alternative_text\":{",
                      texts, "}");
}

}  // namespace ingot::view
