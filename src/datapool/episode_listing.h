// One page of ListEpisodes, built from the keys of `order` that a scan visits.
//
// REQUIRES: reader and request outlive the listing. Not thread safe.
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

  // Takes the next key of `order`. False: the page is complete, or status() is an error.
  bool Visit(std::string_view key);
  const absl::Status& status() const { return status_; }
  v1::ListEpisodesResponse response() && { return std::move(response_); }

 private:
  // `newer_attempt`: the episode replaces the episode of the previous key, an older attempt of its sample.
  absl::Status Add(const std::string& episode_id, bool newer_attempt);

  const Database::Reader& reader_;
  const v1::ListEpisodesRequest& request_;
  const bool newest_only_;  // lists the newest attempt of each sample
  PageBound bound_;
  std::string last_;     // the previous key
  bool listed_ = false;  // its episode is in the response
  absl::Status status_;
  v1::ListEpisodesResponse response_;
};

}  // namespace ingot::datapool
