// The only writer of the pool's journal.
//
// An append that fails may have been written all the same, or may be written yet: it may still wait for the pool's
// disk. Its record is IN DOUBT. Before anything else is written, Resolve sends the same record again, to the same
// index. The pool recognises the record or writes it now. So no record is in the journal without its effect, or twice.
//
// Not thread safe. Every call blocks for one rpc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/journal.pb.h"

namespace ingot::scheduler {

class JournalWriter {
 public:
  // `writer`: a number that no other writer of this journal has or had. `fencing_token`: of every append; 0 = none.
  JournalWriter(datapool::Client& pool, uint64_t writer, int64_t fencing_token)
      : pool_(pool), writer_(writer), fencing_token_(fencing_token) {}
  // The end of the journal as read at the start. Called once, before the first Append.
  void StartAt(int64_t next_index) { next_index_ = next_index; }

  // Appends the record and returns it with its index, durable. INVALID_ARGUMENT: the pool never takes such a record,
  // and nothing is written. ABORTED, from then on always: another process writes this journal. After any other error
  // the record is in doubt until Resolve. REQUIRES: Resolve() was OK since the last error.
  absl::StatusOr<v1::JournalRecord> Append(v1::JournalRecord record);

  // Writes the record in doubt and returns it: the caller now owes its effect. nullopt = no record is in doubt. Errors
  // as of Append.
  absl::StatusOr<std::optional<v1::JournalRecord>> Resolve();

 private:
  // Sends the record in doubt to its place.
  absl::StatusOr<v1::JournalRecord> Send();
  // ABORTED, now and always.
  absl::Status Foreign() const;

  datapool::Client& pool_;
  const uint64_t writer_;
  const int64_t fencing_token_;
  int64_t next_index_ = 0;
  std::optional<v1::JournalRecord> in_doubt_;
  std::string rejected_;  // by the pool, which another process writes; empty = it has not refused
};

}  // namespace ingot::scheduler
