#include "engines/verification/answer_grammar.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "grammar/matcher.h"
#include "rollout/sampling/constraint.h"

namespace ingot::engines {
namespace {

constexpr int kBytes = 256;

// Answers are matched as bytes, so each byte is a token.
std::shared_ptr<const grammar::Vocabulary> ByteVocabulary() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < kBytes; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<const grammar::Vocabulary>(std::move(bytes), std::vector<bool>(kBytes, false));
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

using Alternatives = std::vector<std::vector<grammar::Part>>;

bool HasSchema(const Alternatives& alternatives) {
  const auto is_schema = [](const grammar::Part& part) { return part.is_schema || HasSchema(part.repeated); };
  return std::any_of(alternatives.begin(), alternatives.end(),
                     [&](const auto& parts) { return std::any_of(parts.begin(), parts.end(), is_schema); });
}

bool MayHaveFormat(const grammar::Part& part) {
  return part.is_schema && part.text.find("\"format\"") != std::string::npos;
}

// Removes whitespace from literals. Returns false if the grammar cannot be checked.
bool RemoveSpace(Alternatives& alternatives) {
  for (std::vector<grammar::Part>& parts : alternatives) {
    for (grammar::Part& part : parts) {
      if (part.is_regex || part.parameters.has_value() || part.keywords || MayHaveFormat(part)) return false;
      if (part.is_schema) continue;
      std::optional<std::string> text = WithoutJsonSpace(part.text);
      if (!text.has_value() || !RemoveSpace(part.repeated)) return false;
      part.text = *std::move(text);
    }
    std::erase_if(parts, [](const grammar::Part& part) { return part.text.empty() && part.repeated.empty(); });
    if (parts.empty()) return false;
  }
  return true;
}

bool Matches(const std::shared_ptr<const grammar::Program>& program, std::string_view text, bool whole) {
  grammar::Matcher matcher(program);
  return matcher.AcceptText(text) && (!whole || matcher.complete());
}

}  // namespace

std::optional<std::string> WithoutJsonSpace(std::string_view text, bool part) {
  std::string kept;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (!in_string && IsSpace(c)) continue;
    kept += c;
    if (escaped) {
      escaped = false;
    } else if (in_string && c == '\\') {
      escaped = true;
    } else if (c == '"') {
      in_string = !in_string;
    }
  }
  if (in_string && !part) return std::nullopt;
  return kept;
}

bool AnswerGrammar::Allows(std::string_view text, bool whole) const {
  if (Matches(program_, text, whole)) return true;
  if (compact_ == nullptr) return false;
  if (!begins_after_.empty()) {
    const size_t at = text.find(begins_after_);
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + begins_after_.size());
  }
  const std::optional<std::string> compact = WithoutJsonSpace(text, /*part=*/!whole);
  return compact.has_value() && Matches(compact_, *compact, whole);
}

AnswerGrammars::AnswerGrammars(std::shared_ptr<const text::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), compiler_(ByteVocabulary()) {}

std::shared_ptr<const AnswerGrammar> AnswerGrammars::Of(const v1::SamplingParams& sampling) {
  if (!sampling.has_grammar() || tokenizer_ == nullptr) return nullptr;
  const absl::StatusOr<grammar::Spec> spec = rollout::SpecOf(sampling.grammar());
  if (!spec.ok()) return nullptr;
  const auto program = compiler_.Compile(*spec);
  if (!program.ok()) return nullptr;  // the server may accept what is too complex for Ingot's automata
  std::shared_ptr<const grammar::Program> compact;
  if (HasSchema(spec->alternatives)) {
    grammar::Spec without_space;
    without_space.alternatives = spec->alternatives;
    if (!RemoveSpace(without_space.alternatives)) return nullptr;
    const auto compiled = compiler_.Compile(without_space);
    if (!compiled.ok()) return nullptr;
    compact = *compiled;
  }
  return std::make_shared<const AnswerGrammar>(*program, std::move(compact), spec->begins_after);
}

std::string AnswerGrammars::TextOf(int32_t before, std::span<const int32_t> ids) const {
  // Decoded after the prompt's last id, because some tokenizers drop the first token's leading space.
  std::vector<int32_t> all = {before};
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string first = tokenizer_->Decode(std::span(all).first(1), /*skip_special=*/false);
  std::string text = tokenizer_->Decode(all, /*skip_special=*/false);
  if (text.compare(0, first.size(), first) == 0) return text.substr(first.size());
  return tokenizer_->Decode(ids, /*skip_special=*/false);
}

absl::Status AnswerGrammars::Check(const AnswerGrammar& grammar, const v1::GenerateRequest& request,
                                   std::span<const int32_t> ids, bool stopped, std::span<const int32_t> end_ids) const {
  if (ids.empty()) return absl::OkStatus();
  const int32_t before = *request.prompt_ids().rbegin(), last = ids.back();
  const auto& stops = request.sampling().stop_token_ids();
  const bool is_end = tokenizer_->IsSpecial(last) || std::find(end_ids.begin(), end_ids.end(), last) != end_ids.end() ||
                      std::find(stops.begin(), stops.end(), last) != stops.end();
  std::string text = TextOf(before, stopped && is_end ? ids.first(ids.size() - 1) : ids);
  if (grammar.Allows(text, stopped)) return absl::OkStatus();
  if (stopped && is_end && grammar.Allows(TextOf(before, ids), /*whole=*/true)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the server's answer does not follow the request's grammar, so it is not recorded: '",
                   base::Shown(text), "'; does the server apply grammars, with this model's tokenizer?"));
}

}  // namespace ingot::engines
