// Stages AppendJournal in a commit. proto/datapool.proto defines its semantics and errors.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "datapool/database.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// `unix_ns` is the timestamp for new records. Sets `first_index` to the index of the request's first record.
absl::Status StageAppendJournal(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const v1::AppendJournalRequest& request, int64_t unix_ns, int64_t& first_index);

}  // namespace ingot::datapool
