#include "scheduler/journal_writer.h"

#include <utility>

#include "base/rng.h"

namespace ingot::scheduler {

absl::Status JournalWriter::Foreign() {
  foreign_ = true;
  return absl::AbortedError(absl::StrCat("the journal holds a record at ", next_index_,
                                         " that this scheduler did not write: another one uses the same pool. Stop "
                                         "it, then start this one again, which reads the journal anew"));
}

absl::StatusOr<v1::JournalRecord> JournalWriter::Append(v1::JournalRecord record) {
  if (foreign_) return Foreign();
  if (in_doubt_.has_value()) return absl::InternalError("the last journal record is still in doubt");
  // The pool takes an append with equal content for a repetition. The nonce makes a repetition of this record equal,
  // and a record of the same content at another index different.
  record.set_nonce(base::DeriveSeed(writer_, static_cast<uint64_t>(next_index_)));
  in_doubt_ = std::move(record);
  return Send();
}

absl::StatusOr<std::optional<v1::JournalRecord>> JournalWriter::Resolve() {
  if (foreign_) return Foreign();
  if (!in_doubt_.has_value()) return std::nullopt;
  return Send();
}

absl::StatusOr<v1::JournalRecord> JournalWriter::Send() {
  v1::AppendJournalRequest request;
  *request.add_records() = *in_doubt_;
  request.set_expected_index(next_index_);
  const absl::StatusOr<int64_t> index = pool_.AppendJournal(request);
  if (absl::IsAborted(index.status())) return Foreign();
  if (absl::IsInvalidArgument(index.status())) in_doubt_.reset();
  INGOT_RETURN_IF_ERROR(base::Annotate(index.status(), "the journal cannot be written"));
  v1::JournalRecord written = *std::exchange(in_doubt_, std::nullopt);
  written.set_index(next_index_++);
  return written;
}

}  // namespace ingot::scheduler
