// Lists a run's episodes that match a filter, newest first, one page at a time. A page ends when it is full or its time
// is up. Its cursor continues the search.
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
#include "view/query.h"
#include "view/runs/journal.h"

namespace ingot::view {

struct EpisodeFilter {
  v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN;
  std::optional<int64_t> step;     // only groups in this batch
  std::optional<int64_t> group;    // only this group
  std::optional<int64_t> version;  // for evaluations: only this version
  std::optional<double> reward_min, reward_max;
  std::string domain, scaffold, state, task;  // empty = any
  std::string cause;                          // failure cause
  std::string fork;                           // only episodes with a call that forked for this cause; "any" = any cause
  std::string text;                           // only episodes with a call that contains this text, ignoring case

  // Returns INVALID_ARGUMENT if a value is invalid. The error contains the key and the value.
  static absl::StatusOr<EpisodeFilter> Of(const Query& query);
  bool NeedsCalls() const { return !fork.empty() || !text.empty(); }
  // Returns true if an episode meets the conditions that do not require its calls. Does not check step, group, and
  // version.
  bool Allows(const v1::Episode& episode) const;
};

struct ListBounds {
  size_t limit = 100;
  std::chrono::milliseconds time{1500};
};

// Returns {"episodes": [...], "next": cursor or null, "looked_at": number of episodes read}. `cursor` is the previous
// page's "next"; empty = first page. Returns INVALID_ARGUMENT for an invalid cursor. Other errors come from the pool.
absl::StatusOr<base::json::object> ListJson(const EpisodeFilter& filter, const std::string& cursor,
                                            const Journal& journal, datapool::Client& pool,
                                            const text::Tokenizer& tokenizer, const ListBounds& bounds,
                                            const base::Clock& clock);

}  // namespace ingot::view
