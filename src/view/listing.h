// Episodes of a run that match a filter, newest first, one page at a time. A page ends when it is full or out of time;
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
  std::optional<int64_t> step;     // only the groups of this batch
  std::optional<int64_t> group;    // only this group
  std::optional<int64_t> version;  // of an evaluation: only of this version
  std::optional<double> reward_min, reward_max;
  std::string domain, scaffold, state, task;  // empty = any
  std::string cause;                          // of a failure
  std::string fork;                           // an episode with a call that forked for this cause; "any" = any cause
  std::string text;                           // text of a call, ignoring case

  // INVALID_ARGUMENT: a key does not accept its value; the error names both.
  static absl::StatusOr<EpisodeFilter> Of(const Query& query);
  bool NeedsCalls() const { return !fork.empty() || !text.empty(); }
  // Whether an episode meets the conditions that do not need its calls, except step, group and version.
  bool Allows(const v1::Episode& episode) const;
};

struct ListBounds {
  size_t limit = 100;
  std::chrono::milliseconds time{1500};
};

// {"episodes": [...], "next": cursor or null, "looked_at": episodes that were read}. `cursor`: of the previous page;
// empty = the first page. Errors are the pool's; INVALID_ARGUMENT: no such cursor.
absl::StatusOr<base::json::object> ListJson(const EpisodeFilter& filter, const std::string& cursor,
                                            const Journal& journal, datapool::Client& pool,
                                            const text::Tokenizer& tokenizer, const ListBounds& bounds,
                                            const base::Clock& clock);

}  // namespace ingot::view
