// `rewards`: the terms of the reward, each with its weight, schedule, domains and the options of its kind.
#include "app/role_schemas.h"

namespace ingot::app {
namespace {

void BindSchedule(base::Schema& schema, reward::TermSchedule& o) {
  schema.Field("schedule.from", &o.from, "share of the run's steps from which it counts, 0 to 1");
  schema.Field("schedule.until", &o.until, "share of the run's steps up to which it counts; 1: to the end");
  schema.Field("schedule.linear", &o.linear, "the weight falls linearly to 0 between `from` and `until`");
  schema.Field("schedule.phase_steps", &o.phase_steps, "versions of a phase; 0: there are no phases");
  schema.Field("schedule.phase", &o.phase, "0: it counts in even phases alone, 1: in odd ones, -1: in all");
}

void BindTerm(base::Schema& schema, reward::TermOptions& o) {
  schema.Choice("kind", &o.kind, reward::TermKinds(), "the formula; docs/rewards.md has a row for each");
  schema.Field("name", &o.name, "of the term in metrics and records; empty: its kind");
  schema.Field("weight", &o.weight, "factor of its values in the reward; may be negative");
  BindSchedule(schema, o.schedule);
  schema.Field("domains", &o.domains, "the tasks' domains in which it counts; empty: all");
  schema.Field("length.correct_above", &o.length.correct_above, "length: an outcome above it is correct");
}

}  // namespace

void BindRewards(base::Schema& schema, reward::RewardOptions& o) {
  schema.Field("rewards.deadline_s", &o.deadline_s, "seconds to judge a complete group; past it the group fails");
  schema.Field("rewards.concurrency", &o.concurrency, "groups that are judged at a time");
  schema.List<reward::TermOptions>("rewards.terms", &o.terms, BindTerm,
                                   "the reward is the weighted sum of their values; empty: the outcome alone");
}

}  // namespace ingot::app
