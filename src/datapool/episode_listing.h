// Builds one page of ListEpisodes from the keys of `order` that a scan visits.
//
// REQUIRES: the reader and the request outlive the listing. Not thread safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "datapool/database.h"
#include "datapool/page.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

class EpisodeListing {
 public:
  EpisodeListing(const Database::Reader& reader, const v1::ListEpisodesRequest& request);

  // Processes the next key of `order`. Returns false if the page is complete or status() is an error.
  bool Visit(std::string_view key);
  const absl::Status& status() const { return status_; }
  v1::ListEpisodesResponse response() && { return std::move(response_); }

 private:
  // `newer_attempt`: true = this episode replaces the previous key's episode, an older attempt at the same sample.
  absl::Status Add(const std::string& episode_id, bool newer_attempt);

  const Database::Reader& reader_;
  const v1::ListEpisodesRequest& request_;
  const bool newest_only_;  // list only the newest attempt of each sample
  PageBound bound_;
  std::string last_;     // the previous key
  bool listed_ = false;  // the episode at last_ is in the response
  absl::Status status_;
  v1::ListEpisodesResponse response_;
};

}  // namespace ingot::datapool
