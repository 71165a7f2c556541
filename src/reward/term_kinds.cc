// The table of term kinds, the only place that lists them all.
#include <utility>

#include "reward/options.h"
#include "reward/terms/failed_call.h"
#include "reward/terms/malformed_call.h"
#include "reward/terms/outcome.h"

namespace ingot::reward {
namespace {

using Made = absl::StatusOr<std::unique_ptr<const RewardTerm>>;
using Maker = Made (*)(const TermOptions&, const TermParts&);

// A kind without options.
template <typename Term>
Made MakePlain(const TermOptions&, const TermParts&) {
  return std::make_unique<const Term>();
}

// A kind whose options are the given member of TermOptions.
template <typename Term, auto kOptions>
Made Make(const TermOptions& options, const TermParts& parts) {
  const auto& own = options.*kOptions;
  if constexpr (requires { own.Validate(); }) INGOT_RETURN_IF_ERROR(own.Validate());
  if constexpr (requires { Term(own, options.Name()); }) {
    return std::make_unique<const Term>(own, options.Name());
  } else if constexpr (requires { Term(own, parts); }) {
    return std::make_unique<const Term>(own, parts);
  } else {
    return std::make_unique<const Term>(own);
  }
}

// In the order in which errors and the schema list them.
constexpr std::pair<const char*, Maker> kTable[] = {
    {"outcome", MakePlain<OutcomeTerm>},
    {"length", Make<LengthTerm, &TermOptions::length>},
    {"effort", Make<EffortTerm, &TermOptions::effort>},
    {"overlong", Make<OverlongTerm, &TermOptions::overlong>},
    {"completion_time", Make<CompletionTimeTerm, &TermOptions::completion_time>},
    {"repetition", Make<RepetitionTerm, &TermOptions::repetition>},
    {"malformed_call", MakePlain<MalformedCallTerm>},
    {"failed_call", MakePlain<FailedCallTerm>},
    {"language_mixing", Make<LanguageMixingTerm, &TermOptions::language_mixing>},
    {"toggle", Make<ToggleTerm, &TermOptions::toggle>},
    {"parl_parallel", Make<ParlParallelTerm, &TermOptions::parl_parallel>},
    {"parl_finish", MakePlain<ParlFinishTerm>},
    {"critical_steps", Make<CriticalStepsTerm, &TermOptions::critical_steps>},
    {"retrieval", Make<RetrievalTerm, &TermOptions::retrieval>},
    {"judge", Make<JudgeTerm, &TermOptions::judge>},
    {"external", Make<ExternalTerm, &TermOptions::external>},
    {"teacher", Make<TeacherTerm, &TermOptions::teacher>},
};

}  // namespace

const std::vector<std::string>& TermKinds() {
  static const auto* const kinds = [] {
    auto* names = new std::vector<std::string>;
    for (const auto& [name, maker] : kTable) names->push_back(name);
    return names;
  }();
  return *kinds;
}

absl::StatusOr<std::unique_ptr<const RewardTerm>> MakeTerm(const TermOptions& options, const TermParts& parts) {
  for (const auto& [name, maker] : kTable) {
    if (name == options.kind) return maker(options, parts);
  }
  return absl::InvalidArgumentError(absl::StrCat("rewards.terms kind is '", options.kind, "'"));
}

}  // namespace ingot::reward
