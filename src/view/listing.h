// Episodes of a run that meet conditions, newest first, a page at a time. A page ends when it is full or its time is up;
// its cursor continues the search.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "datapool/client.h"
#include "text/tokenizer/tokenizer.h"
#include "view/journal.h"
#include "view/query.h"

namespace ingot::view {

struct EpisodeFilter {
  v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN;
  std::optional<int64_t> step;     // the groups of this batch alone
  std::optional<int64_t> group;    // this group alone
  std::optional<int64_t> version;  // of an evaluation: of this version alone
  std::optional<double> reward_min, reward_max;
  std::string domain, scaffold, state, task;  // empty = any
  std::string cause;                          // of a failure
  std::string fork;                           // an episode with a call that forked for this cause; "any" = any cause
  std::string text;                           // text of a call, letters of either case alike

  // INVALID_ARGUMENT: a value that its key does not take; the error names both.
  static absl::StatusOr<EpisodeFilter> Of(const Query& query);
  bool NeedsCalls() const { return !fork.empty() || !text.empty(); }
  // Whether an episode meets the conditions that need no calls, but for step, group and version.
  bool Allows(const v1::Episode& episode) const;
};

struct ListBounds {
  size_t limit = 100;
  std::chrono::milliseconds time{1500};
};

// {"episodes": [...], "next": cursor or null, "looked_at": episodes that were read}. `cursor`: of the page before; empty =
// the first page. Errors are the pool's; INVALID_ARGUMENT: no such cursor.
absl::StatusOr<base::json::object> ListJson(const EpisodeFilter& filter, const std::string& cursor,
                                            const Journal& journal, datapool::Client& pool,
                                            const text::Tokenizer& tokenizer, const ListBounds& bounds,
                                            const base::Clock& clock);

}  // namespace ingot::view
