// The interface of the data pool, in process or over gRPC. proto/datapool.proto says what each method means and how it
// fails. A mutation is durable when it returns OK. Methods block; a mutation blocks for one fsync, which it shares with
// concurrent ones. Thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// The payload of AppendCall's FAILED_PRECONDITION when segments are missing. It holds their content keys in
// hexadecimal, separated by commas. The call can be sent again with these segments.
inline constexpr char kMissingSegments[] = "ingot.missing_segments";

// The last sentence of an error about a pool that the run has lost. `folder`: of the pool.
inline std::string WayOn(const std::string& folder = "RUN/pool") {
  return absl::StrCat(". To continue from the run's last checkpoint with an empty pool: mv ", folder, " ", folder,
                      ".damaged, then start the run again with --resume");
}

// Whether a mutation was rejected for good: neither this request nor an earlier request of equal content is stored.
// After any other error it may be stored, now or later.
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

// Claims the journal for one writer and returns the token of its appends, > 0: `least`, or more if the pool has seen a
// token that large. After that the pool rejects the appends of every earlier writer. `least`: a number that grows with
// each leader, such as a registry's fencing token; 0 = only the pool counts leaders.
absl::StatusOr<int64_t> LeadJournal(Client& pool, int64_t least);

// Every attempt of the groups [first_group, last_group] (last_group < 0 = no bound), ordered by (group, sample,
// attempt), a page at a time. A page may be empty, or end inside a group. Not thread safe.
//
//   for (EpisodePages pages(pool, v1::PURPOSE_TRAIN, 0, -1); !pages.done();) {
//     INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
//     ...
//   }
class EpisodePages {
 public:
  // REQUIRES: `pool` outlives the pages.
  EpisodePages(Client& pool, v1::EpisodePurpose purpose, int64_t first_group, int64_t last_group,
               bool only_open = false);
  bool done() const { return done_; }
  absl::StatusOr<v1::ListEpisodesResponse> Next();

 private:
  Client& pool_;
  v1::ListEpisodesRequest request_;
  bool done_ = false;
};

// The journal from its first record to its end, a page at a time, like EpisodePages.
class JournalPages {
 public:
  // REQUIRES: `pool` outlives the pages.
  explicit JournalPages(Client& pool) : pool_(pool) {}
  bool done() const { return done_; }
  absl::StatusOr<v1::ReadJournalResponse> Next();

 private:
  Client& pool_;
  v1::ReadJournalRequest request_;
  bool done_ = false;
};

}  // namespace ingot::datapool
