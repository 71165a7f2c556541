#include "reward/term_kinds.h"

#include <algorithm>

#include "base/config.h"
#include "reward/terms/completion_time.h"
#include "reward/terms/effort.h"
#include "reward/terms/external_score.h"
#include "reward/terms/failed_call.h"
#include "reward/terms/judge.h"
#include "reward/terms/language_mixing.h"
#include "reward/terms/length.h"
#include "reward/terms/malformed_call.h"
#include "reward/terms/outcome.h"
#include "reward/terms/overlong.h"
#include "reward/terms/parl.h"
#include "reward/terms/python_score.h"
#include "reward/terms/repetition.h"
#include "reward/terms/retrieval.h"
#include "reward/terms/teacher.h"
#include "reward/terms/toggle.h"

namespace ingot::reward {
namespace {

using Made = absl::StatusOr<std::unique_ptr<const RewardTerm>>;

struct Kind {
  const char* name;
  Made (*make)(const TermOptions& options, const TermParts& parts);
  // Null = the kind has no options.
  std::any (*defaults)() = nullptr;
  void (*bind)(base::Schema& schema, const std::string& section, TermOptions& term) = nullptr;
};

template <typename Term, typename Options>
Made Make(const TermOptions& options, const TermParts& parts) {
  const auto& own = options.Of<Options>();
  if constexpr (requires { own.Validate(); }) INGOT_RETURN_IF_ERROR(own.Validate());
  if constexpr (requires { Term(own, options.Name()); }) {
    return std::make_unique<const Term>(own, options.Name());
  } else if constexpr (requires { Term(own, parts); }) {
    return std::make_unique<const Term>(own, parts);
  } else {
    return std::make_unique<const Term>(own);
  }
}

template <typename Term, typename Options>
constexpr Kind With(const char* name) {
  return {.name = name,
          .make = Make<Term, Options>,
          .defaults = [] { return std::any(Options()); },
          .bind = [](base::Schema& schema, const std::string& section,
                     TermOptions& term) { schema.Section(section, term.Of<Options>()); }};
}

template <typename Term>
constexpr Kind Plain(const char* name) {
  return {.name = name,
          .make = [](const TermOptions&, const TermParts&) -> Made { return std::make_unique<const Term>(); }};
}

// In the order that errors and the schema list them.
constexpr Kind kKinds[] = {
    Plain<OutcomeTerm>("outcome"),
    With<LengthTerm, LengthOptions>("length"),
    With<EffortTerm, EffortOptions>("effort"),
    With<OverlongTerm, OverlongOptions>("overlong"),
    With<CompletionTimeTerm, CompletionTimeOptions>("completion_time"),
    With<RepetitionTerm, RepetitionOptions>("repetition"),
    Plain<MalformedCallTerm>("malformed_call"),
    Plain<FailedCallTerm>("failed_call"),
    With<LanguageMixingTerm, LanguageMixingOptions>("language_mixing"),
    With<ToggleTerm, ToggleOptions>("toggle"),
    With<ParlParallelTerm, ParlParallelOptions>("parl_parallel"),
    Plain<ParlFinishTerm>("parl_finish"),
    With<CriticalStepsTerm, CriticalStepsOptions>("critical_steps"),
    With<RetrievalTerm, RetrievalOptions>("retrieval"),
    With<JudgeTerm, JudgeOptions>("judge"),
    With<ExternalTerm, ExternalOptions>("external"),
    With<TeacherTerm, TeacherOptions>("teacher"),
    With<PythonTerm, PythonScoreOptions>("python"),
};

}  // namespace

std::map<std::type_index, std::any> DefaultsOfKinds() {
  std::map<std::type_index, std::any> defaults;
  for (const Kind& kind : kKinds) {
    if (kind.defaults == nullptr) continue;
    std::any own = kind.defaults();
    defaults.emplace(own.type(), std::move(own));
  }
  return defaults;
}

const std::vector<std::string>& TermKinds() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const Kind& kind : kKinds) all->emplace_back(kind.name);
    return all;
  }();
  return *names;
}

bool GivesTokenValues(const std::string& kind) { return kind == "teacher"; }

void BindKinds(base::Schema& schema, TermOptions& term) {
  for (const Kind& kind : kKinds) {
    if (kind.bind == nullptr) continue;
    schema.Guard(kind.name, [&term, own = std::string(kind.name)]() -> std::string {
      if (term.kind == own) return "";
      return absl::StrCat("this option needs a term of kind ", own, ", but this one has kind ", term.kind);
    });
    kind.bind(schema, kind.name, term);
  }
}

absl::StatusOr<std::unique_ptr<const RewardTerm>> MakeTerm(const TermOptions& options, const TermParts& parts) {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(options));
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&options](const Kind& one) { return one.name == options.kind; });
  return kind->make(options, parts);
}

}  // namespace ingot::reward
