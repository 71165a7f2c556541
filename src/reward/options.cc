#include "reward/options.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/config.h"
#include "reward/term_kinds.h"

namespace ingot::reward {
namespace {

absl::Status Invalid(const std::string& place, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", fault));
}

absl::Status CheckSchedule(const std::string& place, const TermSchedule& schedule) {
  if (schedule.until < schedule.from) {
    return Invalid(place,
                   absl::StrCat("until is ", schedule.until, ": it must be at least from (", schedule.from, ")"));
  }
  if (schedule.phase >= 0 && schedule.phase_steps == 0) {
    return Invalid(place, "phase needs phase_steps, the number of versions per phase: set it, or remove phase");
  }
  return absl::OkStatus();
}

// Returns the term's configuration without its name and weight. It is equal for terms that give the same values at the
// same times.
std::string ValuesOf(TermOptions term) {
  term.name = "";
  term.weight = 0;
  base::Schema schema;
  Bind(schema, term);
  return schema.EffectiveYaml();
}

struct SameTerms {
  double sum = 0, size = 0;  // sum of the weights, and sum of their magnitudes
  std::vector<std::string> names;
};

// The weights of otherwise equal terms must not add up to 0. Such terms would have no effect, which is certainly a
// mistake.
absl::Status CheckSum(const std::vector<TermOptions>& terms) {
  if (terms.empty()) return absl::OkStatus();
  std::map<std::string, SameTerms> by_values;
  for (const TermOptions& term : terms) {
    SameTerms& same = by_values[ValuesOf(term)];
    same.sum += term.weight;
    same.size += std::abs(term.weight);
    same.names.push_back(term.Name());
  }
  bool any = false;
  for (const auto& [values, same] : by_values) {
    any = any || same.size > 0;
    if (same.size > 0 && std::abs(same.sum) < 1e-12 * same.size) {
      return Invalid(
          "rewards.terms",
          absl::StrCat("the weights of ", absl::StrJoin(same.names, " and "),
                       ", which are otherwise the same term, cancel each other out: remove both, or change one"));
    }
  }
  return any ? absl::OkStatus() : Invalid("rewards.terms", "every weight is 0: nothing is rewarded");
}

}  // namespace

double TermSchedule::At(int64_t version, int64_t total_steps) const {
  const double t = std::min(1.0, static_cast<double>(version) / static_cast<double>(std::max<int64_t>(total_steps, 1)));
  if (t < from || (t > until && until < 1)) return 0;
  if (phase >= 0 && version / phase_steps % 2 != phase) return 0;
  if (!linear) return 1;
  return until > from ? (until - t) / (until - from) : 0;
}

bool RewardOptions::gives_rewards() const {
  return terms.empty() || std::any_of(terms.begin(), terms.end(), [](const TermOptions& term) {
           return term.weight != 0 && !GivesTokenValues(term.kind);
         });
}

std::vector<std::string> RewardOptions::token_terms() const {
  std::vector<std::string> names;
  for (const TermOptions& term : terms) {
    if (term.weight != 0 && GivesTokenValues(term.kind)) names.push_back(term.Name());
  }
  return names;
}

bool RewardOptions::outcome_alone() const {
  if (terms.empty()) return true;
  const TermSchedule& schedule = terms[0].schedule;
  return terms.size() == 1 && terms[0].kind == "outcome" && terms[0].weight == 1 && terms[0].domains.empty() &&
         schedule.from == 0 && schedule.until == 1 && !schedule.linear && schedule.phase == -1;
}

absl::Status RewardOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this), "rewards"));
  std::set<std::string> names;
  for (size_t i = 0; i < terms.size(); ++i) {
    const TermOptions& term = terms[i];
    const std::string place = absl::StrCat("rewards.terms[", i, "] (", term.Name(), ")");
    if (!names.insert(term.Name()).second)
      return Invalid(place, "another term has this name: give each term a unique `name`");
    INGOT_RETURN_IF_ERROR(CheckSchedule(place, term.schedule));
    INGOT_RETURN_IF_ERROR(base::Annotate(MakeTerm(term).status(), place));
  }
  return CheckSum(terms);
}

void Bind(base::Schema& schema, TermSchedule& o) {
  schema.Field("from", &o.from, "share of the run's steps after which the term starts to count", base::InRange(0, 1));
  schema.Field("until", &o.until, "share of the run's steps after which the term stops counting; 1: never",
               base::InRange(0, 1));
  schema.Field("linear", &o.linear, "the weight falls linearly to 0 between `from` and `until`");
  schema.Field("phase_steps", &o.phase_steps, "number of versions per phase; 0: no phases", base::NotNegative());
  schema.Field("phase", &o.phase, "phases in which the term counts; 0: even, 1: odd, -1: all", base::InRange(-1, 1));
}

void Bind(base::Schema& schema, TermOptions& o) {
  schema.Choice("kind", &o.kind, TermKinds(), "the formula; docs/guide/rewards.md has a row for each");
  schema.Field("name", &o.name, "the term's name in metrics and records; empty: its kind");
  schema.Field("weight", &o.weight, "weight of the term's values in the reward; may be negative",
               base::InRange(-1e6, 1e6));
  schema.Section("schedule", o.schedule);
  schema.Field("domains", &o.domains, "task domains in which the term counts; empty: all");
  BindKinds(schema, o);
}

void Bind(base::Schema& schema, RewardOptions& o) {
  schema.Field("deadline_s", &o.deadline_s, "seconds to score a complete group; after that it fails", base::Positive());
  schema.Field("concurrency", &o.concurrency, "number of groups scored in parallel", base::AtLeast(1));
  schema.Field(
      "give_up_groups", &o.give_up_groups,
      "end the run after a term fails to score this many consecutive groups; the error is the reason; 0: never",
      base::NotNegative());
  schema.List("terms", &o.terms,
              "terms of the reward, which is the weighted sum of their values; empty: only the outcome");
}

}  // namespace ingot::reward
