// The parts that verifiers of several kinds share.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

std::string Trimmed(const std::string& text);

// A short line of `text` in quotation marks, for details.
std::string Quoted(const std::string& text);

// Reward 0 with the signal answer_malformed.
Verdict Malformed(const std::string& why);
// Reward 1 or 0.
Verdict Judged(bool right, const std::string& detail);

// The variables of VerifierVariables().
sandbox::Variables VariablesOf(const VerifierInput& input);

// The environment of a verifier's command: PATH and the language of this process, and the verifier's own HOME and TMPDIR.
std::map<std::string, std::string> EnvironmentOf(const VerifierInput& input);

// The base of all kinds that read an answer: it checks that the answer exists and is not too long.
class AnswerVerifier : public Verifier {
 public:
  explicit AnswerVerifier(VerifierOptions options) : options_(std::move(options)) {}
  absl::StatusOr<Verdict> Verify(const VerifierInput& input) const final;

 protected:
  virtual absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const = 0;
  const VerifierOptions options_;
};

// The base of the kinds that compare the answer with one expected text.
class ExpectedVerifier : public AnswerVerifier {
 public:
  ExpectedVerifier(VerifierOptions options, sandbox::Template expected)
      : AnswerVerifier(std::move(options)), expected_(std::move(expected)) {}

 protected:
  virtual absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const = 0;
  // As Compare, for kinds that need more of the input.
  virtual absl::StatusOr<Verdict> CompareIn(const VerifierInput&, const std::string& answer,
                                            const std::string& expected) const {
    return Compare(answer, expected);
  }
  // INVALID_ARGUMENT: nothing can be compared with it.
  virtual absl::Status CheckExpected(const std::string&) const { return absl::OkStatus(); }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override;

 private:
  absl::StatusOr<std::string> Expected(const VerifierInput& input) const;
  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const final;
  const sandbox::Template expected_;
};

}  // namespace ingot::reward
