// Writes the pool's journal. There is only one writer at a time.
//
// A failed append may still have been written, or may be written later if the pool's disk is slow. Its record is then
// UNRESOLVED. Before anything else is written, Resolve resends the same record for the same index, and the pool either
// recognizes it or writes it. So every record takes effect exactly once.
//
// Not thread safe. Every call blocks for one RPC.
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
  // `writer` is unique among all writers that this journal has ever had. Appends carry `fencing_token`; 0 = none.
  JournalWriter(datapool::Client& pool, uint64_t writer, int64_t fencing_token)
      : pool_(pool), writer_(writer), fencing_token_(fencing_token) {}
  // Sets the journal's end, as read at startup. Called once, before the first Append.
  void StartAt(int64_t next_index) { next_index_ = next_index; }

  // Appends the record and returns it with its index once it is durable. Returns INVALID_ARGUMENT, without writing
  // anything, if the pool rejects the record as invalid. Returns ABORTED, now and for every later call, if another
  // process writes this journal. After any other error, the record is unresolved until Resolve. REQUIRES: Resolve() has
  // returned OK since the last error.
  absl::StatusOr<v1::JournalRecord> Append(v1::JournalRecord record);

  // Writes the unresolved record and returns it. The caller must then apply it. Returns nullopt if no record is
  // unresolved. Same errors as Append.
  absl::StatusOr<std::optional<v1::JournalRecord>> Resolve();

 private:
  // Sends the unresolved record for its index.
  absl::StatusOr<v1::JournalRecord> Send();
  // Returns ABORTED.
  absl::Status Foreign() const;

  datapool::Client& pool_;
  const uint64_t writer_;
  const int64_t fencing_token_;
  int64_t next_index_ = 0;
  std::optional<v1::JournalRecord> in_doubt_;
  std::string rejected_;  // the pool's error if another process writes the journal; empty = none
};

}  // namespace ingot::scheduler
