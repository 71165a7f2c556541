// The operator's request to deploy an earlier version again (`ingot serve rollback`). It is a file, RUN/rounds/rollback.json,
// so it survives crashes and works while the server is stopped:
//
//   RequestRollback (the command) --> PendingRollback (the learner, between rounds) --> a round with `restores` --> DropRollback
//
// Versions only increase, so the earlier weights are deployed under a new version number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/learning/rounds.h"
#include "base/status.h"

namespace ingot::app {

struct Rollback {
  int64_t to = 0;                 // version whose weights are deployed again
  int64_t requested_unix_ns = 0;  // identifies the request
};

// Returns the deployed versions that still have a checkpoint folder, in ascending order.
std::vector<int64_t> KeptVersions(const Rounds& rounds);

// Durably stores the request and replaces an earlier one. `to`: nullopt = the newest kept version that was trained
// before the deployed weights. Returns NOT_FOUND, with the kept versions, if that version is not kept,
// FAILED_PRECONDITION if it is deployed already or no earlier one is kept, and DATA_LOSS if its checkpoint is damaged.
absl::StatusOr<Rollback> RequestRollback(const Rounds& rounds, std::optional<int64_t> to, int64_t now_unix_ns);

// Returns nullopt if there is no request, and DATA_LOSS if its file is damaged.
absl::StatusOr<std::optional<Rollback>> PendingRollback(const Rounds& rounds);

// Removes the request. May be repeated.
absl::Status DropRollback(const Rounds& rounds);

}  // namespace ingot::app
