#include "reward/verifiers/f_beta.h"

#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "base/json.h"
#include "reward/verifiers/answer_verifier.h"

namespace ingot::reward {
namespace {

using base::json::value;

// Returns INVALID_ARGUMENT for a JSON list with values other than strings and numbers.
absl::StatusOr<std::set<std::string>> IdsOf(const std::string& text) {
  std::set<std::string> ids;
  const std::string trimmed = Trimmed(text);
  if (!trimmed.starts_with('[')) {
    for (const absl::string_view line : absl::StrSplit(trimmed, '\n')) {
      if (std::string id = Trimmed(std::string(line)); !id.empty()) ids.insert(std::move(id));
    }
    return ids;
  }
  INGOT_ASSIGN_OR_RETURN(const value list, base::ParseJson(trimmed));
  for (const value& item : list.get_array()) {
    if (item.is_string()) {
      ids.emplace(item.get_string());
    } else if (item.is_number()) {
      ids.insert(base::PrintJson(item));
    } else {
      return absl::InvalidArgumentError("a list with values that are not strings or numbers");
    }
  }
  return ids;
}

class FBetaVerifier final : public ExpectedVerifier {
  using ExpectedVerifier::ExpectedVerifier;
  absl::Status CheckExpected(const std::string& expected) const override {
    const auto ids = IdsOf(expected);
    if (ids.ok() && !ids->empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("verifier.expected is ", Quoted(expected), ": it must be a list of ids with at ", "least one"));
  }
  absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const override {
    INGOT_ASSIGN_OR_RETURN(const std::set<std::string> right, IdsOf(expected));
    const absl::StatusOr<std::set<std::string>> said = IdsOf(answer);
    if (!said.ok()) return Malformed(absl::StrCat("the answer is ", said.status().message()));
    double hits = 0;
    base::json::array returned;
    for (const std::string& id : *said) {
      hits += right.contains(id) ? 1 : 0;
      returned.emplace_back(id);
    }
    const double precision = said->empty() ? 0 : hits / static_cast<double>(said->size());
    const double recall = hits / static_cast<double>(right.size());
    const double square = options_.f_beta.beta * options_.f_beta.beta;
    Verdict verdict;
    verdict.reward = hits == 0 ? 0 : (1 + square) * precision * recall / (square * precision + recall);
    verdict.signals = {{"precision", precision}, {"recall", recall}};
    verdict.facts["returned"] = base::PrintJson(returned);
    verdict.detail = absl::StrCat(hits, " of ", said->size(), " ids are among the ", right.size(), " expected ones");
    return verdict;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Verifier>> MakeFBeta(const VerifierOptions& options, sandbox::Template expected) {
  return std::make_unique<FBetaVerifier>(options, std::move(expected));
}

}  // namespace ingot::reward
