#include "reward/options.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"

namespace ingot::reward {
namespace {

absl::Status Invalid(const std::string& place, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", fault));
}

absl::Status CheckSchedule(const std::string& place, const TermSchedule& schedule) {
  if (!(schedule.from >= 0 && schedule.from <= 1)) {
    return Invalid(place, absl::StrCat("from is ", schedule.from, ": a share of the run's steps, from 0 to 1"));
  }
  if (!(schedule.until >= schedule.from && schedule.until <= 1)) {
    return Invalid(place, absl::StrCat("until is ", schedule.until, ": a share of the run's steps, from `from` (",
                                       schedule.from, ") to 1"));
  }
  if (schedule.phase < -1 || schedule.phase > 1) {
    return Invalid(place, absl::StrCat("phase is ", schedule.phase, ": 0, 1, or -1 for every phase"));
  }
  if (schedule.phase_steps < 0) return Invalid(place, "phase_steps is negative");
  if (schedule.phase >= 0 && schedule.phase_steps == 0) {
    return Invalid(place, "phase needs phase_steps, the versions that a phase lasts");
  }
  return absl::OkStatus();
}

// Whether the terms give the same values at the same times.
bool Same(TermOptions a, TermOptions b) {
  a.name = b.name = "";
  a.weight = b.weight = 0;
  return a == b;
}

// The weights of otherwise equal terms must not add up to 0: they would have no effect, which is surely a mistake.
absl::Status CheckSum(const std::vector<TermOptions>& terms) {
  bool any = terms.empty();
  for (const TermOptions& term : terms) {
    double sum = 0, size = 0;
    std::vector<std::string> names;
    for (const TermOptions& other : terms) {
      if (!Same(term, other)) continue;
      sum += other.weight;
      size += std::abs(other.weight);
      names.push_back(other.Name());
    }
    any = any || size > 0;
    if (size > 0 && std::abs(sum) < 1e-12 * size) {
      return Invalid(
          "rewards.terms",
          absl::StrCat("the weights of ", absl::StrJoin(names, " and "),
                       ", which are otherwise the same term, cancel each other: remove them, or change one"));
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

bool RewardOptions::outcome_alone() const {
  if (terms.empty()) return true;
  const TermSchedule& schedule = terms[0].schedule;
  return terms.size() == 1 && terms[0].kind == "outcome" && terms[0].weight == 1 && terms[0].domains.empty() &&
         schedule.from == 0 && schedule.until == 1 && !schedule.linear && schedule.phase == -1;
}

absl::Status RewardOptions::Validate() const {
  if (!(deadline_s > 0)) return Invalid("rewards.deadline_s", absl::StrCat("is ", deadline_s, ": seconds, above 0"));
  if (concurrency < 1) return Invalid("rewards.concurrency", absl::StrCat("is ", concurrency, ": at least 1"));
  if (give_up_groups < 0) return Invalid("rewards.give_up_groups", absl::StrCat("is ", give_up_groups, ": 0 or more"));
  std::set<std::string> names;
  for (size_t i = 0; i < terms.size(); ++i) {
    const TermOptions& term = terms[i];
    const std::string place = absl::StrCat("rewards.terms[", i, "] (", term.Name(), ")");
    if (std::find(TermKinds().begin(), TermKinds().end(), term.kind) == TermKinds().end()) {
      return Invalid(place, absl::StrCat("kind is '", term.kind, "': one of ", absl::StrJoin(TermKinds(), ", ")));
    }
    if (!names.insert(term.Name()).second) return Invalid(place, "the name is taken: give each term its own `name`");
    if (!std::isfinite(term.weight) || std::abs(term.weight) > 1e6) {
      return Invalid(place, absl::StrCat("weight is ", term.weight, ": a number from -1e6 to 1e6"));
    }
    INGOT_RETURN_IF_ERROR(CheckSchedule(place, term.schedule));
    INGOT_RETURN_IF_ERROR(base::Annotate(MakeTerm(term).status(), place));
  }
  return CheckSum(terms);
}

}  // namespace ingot::reward
