#include "reward/verifiers/choice.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "reward/verifiers/answer_verifier.h"

namespace ingot::reward {
namespace {

bool IsWordByte(char c) {
  return absl::ascii_isalnum(c) || c == '\'' || c == '_' || (static_cast<unsigned char>(c) & 0x80) != 0;
}

// Returns the part of the text that has the answer.
std::string_view AnswerPart(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  if (const size_t boxed = text.rfind(kBoxed); boxed != std::string_view::npos) {
    const std::string_view inside = text.substr(boxed + kBoxed.size());
    return inside.substr(0, inside.find('}'));
  }
  const std::string lower = absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
  size_t from = 0;
  for (const std::string_view mark : {"answer is", "answer:"}) {
    const size_t found = lower.rfind(mark);
    if (found != std::string::npos) from = std::max(from, found + mark.size());
  }
  return text.substr(from);
}

class ChoiceVerifier final : public ExpectedVerifier {
  using ExpectedVerifier::ExpectedVerifier;
  absl::Status CheckExpected(const std::string& expected) const override {
    const std::string right = Trimmed(expected);
    if (right.size() == 1 && options_.choice.choices.find(absl::ascii_toupper(right[0])) != std::string::npos) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("verifier.expected is ", Quoted(expected),
                                                   ", which is not one letter of ", "verifier.choice.choices, ",
                                                   options_.choice.choices));
  }
  absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const override {
    const std::set<char> named = NamedChoices(answer, options_.choice.choices);
    if (named.empty()) return Malformed(absl::StrCat("the answer ", Quoted(answer), " does not contain a choice"));
    const char right = absl::ascii_toupper(Trimmed(expected)[0]);
    Verdict verdict =
        Judged(named == std::set<char>{right},
               absl::StrCat("named ", absl::StrJoin(named, ", ", [](std::string* out, char c) { out->push_back(c); }),
                            ", expected ", std::string(1, right)));
    verdict.signals["several_choices"] = named.size() > 1 ? 1 : 0;
    return verdict;
  }
};

}  // namespace

std::set<char> NamedChoices(std::string_view text, std::string_view choices) {
  const std::string whole = Trimmed(std::string(text));
  std::set<char> named;
  if (whole.size() == 1) {
    const char letter = absl::ascii_toupper(whole[0]);
    if (choices.find(letter) != std::string_view::npos) named.insert(letter);
    return named;
  }
  const std::string_view part = AnswerPart(text);
  for (size_t i = 0; i < part.size(); ++i) {
    if (choices.find(part[i]) == std::string_view::npos) continue;
    if (i > 0 && IsWordByte(part[i - 1])) continue;
    if (i + 1 < part.size() && IsWordByte(part[i + 1])) continue;
    const bool article = part[i] == 'A' && i + 2 < part.size() && part[i + 1] == ' ' &&
                         absl::ascii_islower(part[i + 2]) && part.substr(i + 2, 4) != "and " &&
                         part.substr(i + 2, 3) != "or ";
    if (!article) named.insert(part[i]);
  }
  return named;
}

absl::StatusOr<std::unique_ptr<const Verifier>> MakeChoice(const VerifierOptions& options, sandbox::Template expected) {
  const std::string& choices = options.choice.choices;
  const bool letters = std::all_of(choices.begin(), choices.end(), [](char c) { return absl::ascii_isupper(c); });
  const std::set<char> different(choices.begin(), choices.end());
  if (!letters || choices.size() < 2 || different.size() != choices.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("verifier.choice.choices is '", choices, "': it must be 2 to 26 different letters from A to Z"));
  }
  return std::make_unique<ChoiceVerifier>(options, std::move(expected));
}

}  // namespace ingot::reward
