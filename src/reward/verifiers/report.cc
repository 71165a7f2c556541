#include "reward/verifiers/report.h"

#include <optional>

#include "base/json.h"
#include "reward/verifiers/answer_verifier.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::reward {
namespace {

using base::json::value;

std::optional<double> AsNumber(const value* json) {
  return json == nullptr || !json->is_number() ? std::nullopt : std::optional(json->to_number<double>());
}

}  // namespace

absl::StatusOr<Verdict> ParseReport(const std::string& text) {
  INGOT_ASSIGN_OR_RETURN(const value json, base::ParseJson(Trimmed(text)));
  Verdict verdict;
  const value* reward = json.is_object() ? base::Find(json, "reward") : &json;
  const std::optional<double> number = AsNumber(reward);
  if (!number.has_value()) return absl::InvalidArgumentError("neither a number nor {\"reward\": number}");
  if (const std::string fault = tree::RewardFault(*number); !fault.empty()) {
    return absl::InvalidArgumentError("not a valid reward: it " + fault);
  }
  verdict.reward = *number;
  if (const value* signals = base::Find(json, "signals")) {
    if (!signals->is_object()) return absl::InvalidArgumentError("a report whose \"signals\" is not an object");
    if (signals->get_object().size() > tree::kMaxReportedSignals) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", tree::kMaxReportedSignals, " signals"));
    }
    for (const auto& [name, signal] : signals->get_object()) {
      if (!tree::IsSignalName(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("a signal with an invalid name: it must have 1 to ", tree::kMaxSignalName,
                         " bytes, and no control or bidirectional formatting characters"));
      }
      const std::optional<double> part = AsNumber(&signal);
      const std::string fault = part.has_value() ? tree::SignalFault(*part) : "is not a number";
      if (!fault.empty()) return absl::InvalidArgumentError(absl::StrCat("signal '", std::string(name), "' ", fault));
      verdict.signals[std::string(name)] = *part;
    }
  }
  if (const value* facts = base::Find(json, "facts")) {
    if (!facts->is_object()) return absl::InvalidArgumentError("a report whose \"facts\" is not an object");
    for (const auto& [name, fact] : facts->get_object()) {
      if (!tree::IsSignalName(name)) return absl::InvalidArgumentError("a fact whose name is not a valid signal name");
      verdict.facts[std::string(name)] = base::PrintJson(fact);
    }
    if (verdict.facts.size() > tree::kMaxFacts || tree::FactBytes(verdict.facts) > tree::kMaxFactBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", tree::kMaxFacts, " facts or ", tree::kMaxFactBytes, " bytes of facts"));
    }
  }
  if (const value* detail = base::Find(json, "detail"); detail != nullptr)
    verdict.detail = detail->is_string() ? std::string(detail->get_string()) : base::PrintJson(*detail);
  return verdict;
}

}  // namespace ingot::reward
