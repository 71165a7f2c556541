#include "scheduler/journal_writer.h"

#include <string>
#include <utility>

#include "base/rng.h"

namespace ingot::scheduler {
namespace {

std::string Content(v1::JournalRecord record) {
  record.clear_index();
  record.clear_unix_ns();
  return record.SerializeAsString();
}

}  // namespace

absl::Status JournalWriter::Foreign() {
  foreign_ = true;
  return absl::AbortedError(absl::StrCat("the journal holds a record at ", next_index_,
                                         " that this scheduler did not write: another one uses the same pool. Stop "
                                         "it, then start this one again, which reads the journal anew"));
}

absl::StatusOr<v1::JournalRecord> JournalWriter::Append(v1::JournalRecord record) {
  if (foreign_) return Foreign();
  if (in_doubt_.has_value()) return absl::InternalError("the last journal record is still in doubt");
  // The pool takes an append with equal content for an earlier one told again. Repeating this one must be that; saying
  // the same at another place of the journal must not.
  record.set_nonce(base::DeriveSeed(writer_, static_cast<uint64_t>(next_index_)));
  v1::AppendJournalRequest request;
  *request.add_records() = record;
  const absl::StatusOr<int64_t> index = pool_.AppendJournal(request);
  if (!index.ok()) {
    in_doubt_ = std::move(record);
    return base::Annotate(index.status(), "the journal cannot be written");
  }
  if (*index != next_index_) return Foreign();
  record.set_index(next_index_++);
  return record;
}

absl::StatusOr<std::optional<v1::JournalRecord>> JournalWriter::Resolve() {
  if (foreign_) return Foreign();
  if (!in_doubt_.has_value()) return std::optional<v1::JournalRecord>();
  v1::ReadJournalRequest request;
  request.set_from_index(next_index_);
  request.set_limit(1);
  auto read = pool_.ReadJournal(request);
  if (!read.ok()) return base::Annotate(read.status(), "whether the last journal record was written is not known");
  if (read->records().empty()) {
    in_doubt_.reset();
    return std::optional<v1::JournalRecord>();
  }
  if (Content(read->records(0)) != Content(*in_doubt_)) return Foreign();
  in_doubt_.reset();
  ++next_index_;
  return std::optional<v1::JournalRecord>(std::move(*read->mutable_records(0)));
}

}  // namespace ingot::scheduler
