#include "reward/verifiers/answer_verifier.h"

#include "absl/strings/ascii.h"
#include "base/json_text.h"
#include "base/utf8.h"

namespace ingot::reward {

std::string Trimmed(const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); }

std::string Quoted(const std::string& text) {
  std::string shown;
  for (const char c : base::CutText(text, 80)) shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return absl::StrCat("'", shown, text.size() > 80 ? "...'" : "'");
}

Verdict Malformed(const std::string& why) {
  return {.reward = 0, .signals = {{"answer_malformed", 1.0}}, .facts = {}, .detail = why};
}

Verdict Judged(bool right, const std::string& detail) {
  return {.reward = right ? 1.0 : 0.0, .signals = {}, .facts = {}, .detail = detail};
}

sandbox::Variables VariablesOf(const VerifierInput& input) {
  return {
      .text = {{"workdir", input.workdir}, {"home", input.home}, {"episode_id", input.episode_id}, {"cwd", input.cwd}},
      .json = {{"task", base::JsonText(input.task)}}};
}

std::map<std::string, std::string> EnvironmentOf(const VerifierInput& input) {
  std::map<std::string, std::string> env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL", "TZ"});
  env["HOME"] = input.own_home;
  env["TMPDIR"] = input.own_tmp;
  env["INGOT_EPISODE_ID"] = input.episode_id;
  return env;
}

absl::StatusOr<Verdict> AnswerVerifier::Verify(const VerifierInput& input) const {
  if (!input.answer.has_value()) return Malformed(absl::StrCat("no answer: ", input.no_answer_reason));
  if (static_cast<int64_t>(input.answer->size()) > options_.max_answer_bytes) {
    return Malformed(
        absl::StrCat("the answer has ", input.answer->size(), " bytes, more than ", options_.max_answer_bytes));
  }
  return Judge(*input.answer, input);
}

absl::StatusOr<std::string> ExpectedVerifier::Expected(const VerifierInput& input) const {
  auto expected = expected_.Render(VariablesOf(input));
  if (!expected.ok()) return base::Annotate(expected.status(), "verifier.expected");
  INGOT_RETURN_IF_ERROR(CheckExpected(*expected));
  return expected;
}

absl::StatusOr<Verdict> ExpectedVerifier::Judge(const std::string& answer, const VerifierInput& input) const {
  INGOT_ASSIGN_OR_RETURN(const std::string expected, Expected(input));
  return CompareIn(input, answer, expected);
}

absl::StatusOr<sandbox::Command> ExpectedVerifier::Preflight(const VerifierInput& input) const {
  INGOT_RETURN_IF_ERROR(Expected(input).status());
  return sandbox::Command();
}

}  // namespace ingot::reward
