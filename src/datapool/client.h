// The data pool's interface, in process or over gRPC. proto/datapool.proto documents each method and its errors. A
// mutation is durable when it returns OK. Methods block. A mutation blocks for one fsync, which it shares with
// concurrent mutations. Thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// The payload of AppendCall's FAILED_PRECONDITION error when segments are missing. It contains their content keys in
// hexadecimal, separated by commas. The caller can resend the call with these segments.
inline constexpr char kMissingSegments[] = "ingot.missing_segments";

// Returns the last sentence of error messages about a lost pool. `folder` is the pool's directory.
inline std::string PoolRecoveryHint(const std::string& folder = "RUN/pool") {
  return absl::StrCat(". To continue from the run's last checkpoint with an empty pool: mv ", folder, " ", folder,
                      ".damaged, then start the run again with --resume");
}

// Returns whether a mutation was permanently rejected, so that neither this request nor an identical earlier one is
// stored. After any other error, the mutation may already be stored, or may be stored later.
bool IsRejection(const absl::Status& status);

class Client {
 public:
  virtual ~Client() = default;
  virtual absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) = 0;
  virtual absl::Status AppendCall(const v1::AppendCallRequest& request) = 0;
  virtual absl::Status StoreReward(const v1::StoreRewardRequest& request) = 0;
  virtual absl::Status StoreEnd(const v1::StoreEndRequest& request) = 0;
  virtual absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) = 0;
  virtual absl::Status StoreGrades(const v1::StoreGradesRequest& request) = 0;
  virtual absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) = 0;
  virtual absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) = 0;
  virtual absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) = 0;
  // Returns the index of the request's first record.
  virtual absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) = 0;
  virtual absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) = 0;
  virtual absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) = 0;
  virtual absl::StatusOr<v1::PoolStatusResponse> Status() = 0;
};

// Claims the journal for one writer and returns the token for its appends, which is > 0. The token is `least`, or
// greater if the pool has already seen a token that large. From then on, the pool rejects appends from earlier writers.
// `least` must grow with each leader, like a registry's fencing token. 0 = only the pool assigns tokens.
absl::StatusOr<int64_t> LeadJournal(Client& pool, int64_t least);

// Lists all attempts in groups [first_group, last_group] page by page, ordered by (group, sample, attempt). last_group
// < 0 = no upper bound. A page may be empty or end in the middle of a group. Not thread safe.
//
//   for (EpisodePages pages(pool, v1::PURPOSE_TRAIN, 0, -1); !pages.done();) {
//     INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
//     ...
//   }
class EpisodePages {
 public:
  // REQUIRES: `pool` outlives this object.
  EpisodePages(Client& pool, v1::EpisodePurpose purpose, int64_t first_group, int64_t last_group,
               bool only_open = false);
  bool done() const { return done_; }
  absl::StatusOr<v1::ListEpisodesResponse> Next();

 private:
  Client& pool_;
  v1::ListEpisodesRequest request_;
  bool done_ = false;
};

// Reads the entire journal page by page. Used like EpisodePages.
class JournalPages {
 public:
  // REQUIRES: `pool` outlives this object.
  explicit JournalPages(Client& pool) : pool_(pool) {}
  bool done() const { return done_; }
  absl::StatusOr<v1::ReadJournalResponse> Next();

 private:
  Client& pool_;
  v1::ReadJournalRequest request_;
  bool done_ = false;
};

}  // namespace ingot::datapool
