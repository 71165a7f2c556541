// The only writer of the pool's journal.
//
// A failed append may have been written anyway, or may be written later: it may still wait for the pool's disk. Its
// record is UNRESOLVED. Before anything else is written, Resolve sends the same record again, to the same index. The
// pool recognizes the record or writes it now. So no record is in the journal without its effect, or twice.
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
  // `writer`: unique among all writers of this journal, past and present. `fencing_token`: of every append; 0 = none.
  JournalWriter(datapool::Client& pool, uint64_t writer, int64_t fencing_token)
      : pool_(pool), writer_(writer), fencing_token_(fencing_token) {}
  // The end of the journal as read at the start. Called once, before the first Append.
  void StartAt(int64_t next_index) { next_index_ = next_index; }

  // Appends the record and returns it with its index, durable. INVALID_ARGUMENT: the pool never takes such a record,
  // and nothing is written. ABORTED, now and for every later call: another process writes this journal. After any other
  // error the record is unresolved until Resolve. REQUIRES: Resolve() was OK since the last error.
  absl::StatusOr<v1::JournalRecord> Append(v1::JournalRecord record);

  // Writes the unresolved record and returns it: the caller must now apply its effect. nullopt = no record is
  // unresolved. Errors: Append's.
  absl::StatusOr<std::optional<v1::JournalRecord>> Resolve();

 private:
  // Sends the unresolved record to its index.
  absl::StatusOr<v1::JournalRecord> Send();
  // ABORTED.
  absl::Status Foreign() const;

  datapool::Client& pool_;
  const uint64_t writer_;
  const int64_t fencing_token_;
  int64_t next_index_ = 0;
  std::optional<v1::JournalRecord> in_doubt_;
  std::string rejected_;  // the pool's error: another process writes the journal; empty = none
};

}  // namespace ingot::scheduler
