#include "datapool/client.h"

#include <algorithm>

namespace ingot::datapool {

bool IsRejection(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<int64_t> LeadJournal(Client& pool, int64_t least) {
  constexpr int kTries = 8;  // an attempt fails if another leader claims the journal at the same time
  absl::Status rejected;
  for (int i = 0; i < kTries; ++i) {
    INGOT_ASSIGN_OR_RETURN(const v1::PoolStatusResponse status, pool.Status());
    v1::AppendJournalRequest claim;
    claim.set_fencing_token(std::max(least, status.writer_token() + 1));
    rejected = pool.AppendJournal(claim).status();
    if (rejected.ok()) return claim.fencing_token();
    if (!absl::IsAborted(rejected)) return rejected;
  }
  return rejected;
}

EpisodePages::EpisodePages(Client& pool, v1::EpisodePurpose purpose, int64_t first_group, int64_t last_group,
                           bool only_open)
    : pool_(pool) {
  request_.set_purpose(purpose);
  request_.set_first_group(first_group);
  request_.set_last_group(last_group);
  request_.set_only_open(only_open);
  request_.set_all_attempts(true);
}

absl::StatusOr<v1::ListEpisodesResponse> EpisodePages::Next() {
  INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pool_.ListEpisodes(request_));
  done_ = !page.more();
  request_.set_after(page.next());
  return page;
}

absl::StatusOr<v1::ReadJournalResponse> JournalPages::Next() {
  INGOT_ASSIGN_OR_RETURN(v1::ReadJournalResponse page, pool_.ReadJournal(request_));
  if (!page.records().empty()) request_.set_from_index(page.records().rbegin()->index() + 1);
  done_ = page.records().empty() || request_.from_index() >= page.end_index();
  return page;
}

}  // namespace ingot::datapool
