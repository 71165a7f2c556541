#include "datapool/journal_mutation.h"

#include <string>

#include "base/checksum.h"
#include "datapool/keys.h"
#include "datapool/serialize.h"

namespace ingot::datapool {
namespace {

// Returns ABORTED if another writer now leads.
absl::Status CheckWriter(const v1::PoolStatusResponse& counters, const v1::AppendJournalRequest& request) {
  const int64_t token = request.fencing_token(), held = counters.writer_token();
  if (token > held || (token == held && !request.records().empty())) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("another writer leads the journal under token ", held, "; this append has token ", token));
}

}  // namespace

absl::Status StageAppendJournal(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const v1::AppendJournalRequest& request, int64_t unix_ns, int64_t& first_index) {
  INGOT_RETURN_IF_ERROR(CheckWriter(counters, request));
  counters.set_writer_token(request.fencing_token());
  first_index = counters.journal_end();
  if (request.records().empty()) return absl::OkStatus();
  v1::AppendJournalRequest bare = request;
  bare.clear_expected_index();
  bare.clear_fencing_token();
  for (v1::JournalRecord& record : *bare.mutable_records()) {
    record.clear_index();
    record.clear_unix_ns();
  }
  const std::string request_key = base::ContentKey(DeterministicBytes(bare));
  const absl::StatusOr<std::string> earlier = batch.Get(kAppends, request_key);
  if (earlier.ok()) {
    first_index = static_cast<int64_t>(FromBigEndian(*earlier));
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(earlier.status())) return earlier.status();
  if (request.has_expected_index() && request.expected_index() != counters.journal_end()) {
    return absl::AbortedError(absl::StrCat("the journal ends at ", counters.journal_end(), ", but this append expects ",
                                           request.expected_index()));
  }
  int64_t index = first_index;
  for (v1::JournalRecord& record : *bare.mutable_records()) {
    record.set_index(index);
    record.set_unix_ns(unix_ns);
    batch.Put(kJournal, BigEndian(index++, 8), record.SerializeAsString());
  }
  batch.Put(kAppends, request_key, BigEndian(first_index, 8));
  counters.set_journal_end(index);
  return absl::OkStatus();
}

}  // namespace ingot::datapool
