// What a caller of the data pool sees, in process or over gRPC. proto/datapool.proto says what each call means, how it
// fails and that mutations are durable before they return. Calls block (a mutation for one fsync, shared with its
// neighbours). Thread safe.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// Payload of AppendCall's FAILED_PRECONDITION when segments are missing: their content keys in hexadecimal, separated
// by commas. Sending the call again with these segments succeeds.
inline constexpr char kMissingSegments[] = "ingot.missing_segments";

class Client {
 public:
  virtual ~Client() = default;
  virtual absl::Status OpenEpisode(const v1::OpenEpisodeRequest& request) = 0;
  virtual absl::Status AppendCall(const v1::AppendCallRequest& request) = 0;
  virtual absl::Status RewardEpisode(const v1::RewardEpisodeRequest& request) = 0;
  virtual absl::Status EndEpisode(const v1::EndEpisodeRequest& request) = 0;
  virtual absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) = 0;
  virtual absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) = 0;
  virtual absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) = 0;
  // The index of the first record written.
  virtual absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) = 0;
  virtual absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) = 0;
  virtual absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) = 0;
  virtual absl::StatusOr<v1::PoolStatusResponse> Status() = 0;
};

// Reads every attempt of groups [first, last] (last < 0: no bound), ordered by (group, sample, attempt), a page at a
// time: while (!pages.done()) { pages.Next() ... }. A page may be empty, or end inside a group. Not thread safe.
class EpisodePages {
 public:
  // `pool` must outlive it.
  EpisodePages(Client& pool, v1::EpisodePurpose purpose, int64_t first_group, int64_t last_group,
               bool only_open = false);
  bool done() const { return done_; }
  absl::StatusOr<v1::ListEpisodesResponse> Next();

 private:
  Client& pool_;
  v1::ListEpisodesRequest request_;
  bool done_ = false;
};

}  // namespace ingot::datapool
