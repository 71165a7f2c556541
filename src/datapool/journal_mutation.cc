#include "datapool/journal_mutation.h"

#include <string>

#include "base/checksum.h"
#include "datapool/keys.h"
#include "datapool/serialize.h"

namespace ingot::datapool {

absl::Status StageAppendJournal(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const v1::AppendJournalRequest& request, int64_t unix_ns, int64_t& first_index) {
  v1::AppendJournalRequest bare = request;
  bare.clear_expected_index();
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
    return absl::AbortedError(absl::StrCat("the journal ends at ", counters.journal_end(),
                                           ", and this append was to stand at ", request.expected_index()));
  }
  first_index = counters.journal_end();
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
