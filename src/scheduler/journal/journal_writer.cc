#include "scheduler/journal/journal_writer.h"

#include <utility>

#include "base/rng.h"

namespace ingot::scheduler {

absl::Status JournalWriter::Foreign() const {
  return absl::AbortedError(absl::StrCat("another scheduler is writing this pool's journal (", rejected_,
                                         "): stop it, or this one; the next start reads the journal again"));
}

absl::StatusOr<v1::JournalRecord> JournalWriter::Append(v1::JournalRecord record) {
  if (!rejected_.empty()) return Foreign();
  if (in_doubt_.has_value()) return absl::InternalError("the last journal record is still unresolved");
  // The pool treats an append with equal content as a repetition. With the nonce, a repetition of this record is equal,
  // and a record with the same content at another index is different.
  record.set_nonce(base::DeriveSeed(writer_, static_cast<uint64_t>(next_index_)));
  in_doubt_ = std::move(record);
  return Send();
}

absl::StatusOr<std::optional<v1::JournalRecord>> JournalWriter::Resolve() {
  if (!rejected_.empty()) return Foreign();
  if (!in_doubt_.has_value()) return std::nullopt;
  return Send();
}

absl::StatusOr<v1::JournalRecord> JournalWriter::Send() {
  v1::AppendJournalRequest request;
  *request.add_records() = *in_doubt_;
  request.set_expected_index(next_index_);
  request.set_fencing_token(fencing_token_);
  const absl::StatusOr<int64_t> index = pool_.AppendJournal(request);
  if (absl::IsAborted(index.status())) {
    rejected_ = std::string(index.status().message());
    return Foreign();
  }
  if (absl::IsInvalidArgument(index.status())) in_doubt_.reset();
  INGOT_RETURN_IF_ERROR(base::Annotate(index.status(), "the journal cannot be written"));
  v1::JournalRecord written = *std::exchange(in_doubt_, std::nullopt);
  written.set_index(next_index_++);
  return written;
}

}  // namespace ingot::scheduler
