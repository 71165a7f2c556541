// Code shared by several verifiers.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

std::string Trimmed(const std::string& text);

// Returns `text` as one short, quoted line for Verdict::detail.
std::string Quoted(const std::string& text);

// Returns reward 0 with the signal answer_malformed.
Verdict Malformed(const std::string& why);
// Returns reward 1 or 0.
Verdict Judged(bool right, const std::string& detail);

// Returns the values of VerifierVariables().
sandbox::Variables VariablesOf(const VerifierInput& input);

// Returns the environment for a verifier's command: this process's PATH and locale, and the verifier's own HOME and
// TMPDIR.
std::map<std::string, std::string> EnvironmentOf(const VerifierInput& input);

// Base class for verifiers that read an answer. Checks that the answer exists and is not too long.
class AnswerVerifier : public Verifier {
 public:
  explicit AnswerVerifier(VerifierOptions options) : options_(std::move(options)) {}
  absl::StatusOr<Verdict> Verify(const VerifierInput& input) const final;

 protected:
  virtual absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const = 0;
  const VerifierOptions options_;
};

// Base class for verifiers that compare the answer with an expected string.
class ExpectedVerifier : public AnswerVerifier {
 public:
  ExpectedVerifier(VerifierOptions options, sandbox::Template expected)
      : AnswerVerifier(std::move(options)), expected_(std::move(expected)) {}

 protected:
  virtual absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const = 0;
  // Same as Compare, but for verifiers that need more of the input.
  virtual absl::StatusOr<Verdict> CompareIn(const VerifierInput&, const std::string& answer,
                                            const std::string& expected) const {
    return Compare(answer, expected);
  }
  // Returns INVALID_ARGUMENT if no answer could be compared with this expected string.
  virtual absl::Status CheckExpected(const std::string&) const { return absl::OkStatus(); }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override;

 private:
  absl::StatusOr<std::string> Expected(const VerifierInput& input) const;
  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const final;
  const sandbox::Template expected_;
};

}  // namespace ingot::reward
