// The scheduler's hand on the journal, of which it is the only writer. Its one duty beyond AppendJournal: an append
// that answered with an error may have been written all the same, or may be written yet (it still waits for the pool's
// disk). So before anything else is written, Resolve sends the very same record again, for the same place: the pool
// recognises it, or writes it now. No record stands in the journal without its effect, or twice.
//
// Not thread safe. Every call blocks for one rpc.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/journal.pb.h"

namespace ingot::scheduler {

class JournalWriter {
 public:
  // `writer` tells this writer's records from those of any other, earlier ones included.
  JournalWriter(datapool::Client& pool, uint64_t writer) : pool_(pool), writer_(writer) {}
  // Where the journal ends, once read; before the first Append.
  void StartAt(int64_t next_index) { next_index_ = next_index; }

  // Durable when it returns: the record with its index. INVALID_ARGUMENT: the pool will never take it, and nothing is
  // written. On any other error the record is in doubt, until Resolve.
  // REQUIRES: Resolve() was OK since the last error. ABORTED, from then on always: somebody else writes this journal.
  absl::StatusOr<v1::JournalRecord> Append(v1::JournalRecord record);

  // The record in doubt, once it is written: its effect is now due. Nothing if there is none. Fails as Append does.
  absl::StatusOr<std::optional<v1::JournalRecord>> Resolve();

 private:
  // Writes the record in doubt.
  absl::StatusOr<v1::JournalRecord> Send();
  absl::Status Foreign();

  datapool::Client& pool_;
  const uint64_t writer_;
  int64_t next_index_ = 0;
  std::optional<v1::JournalRecord> in_doubt_;
  bool foreign_ = false;
};

}  // namespace ingot::scheduler
