// Finds the open episode of a key in the pool. The pool knows episodes only by id, so the search reads all open
// episodes. Requests that come during a scan share the next scan. Thread safe; blocks for the pool.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"

namespace ingot::gateway {

class KeySearch {
 public:
  // `pool` outlives it; null = it finds nothing.
  explicit KeySearch(datapool::Client* pool) : pool_(pool) {}

  // The id of the open training or evaluation episode with one of these hashes (Episode.key_hash); empty = a scan that
  // began after the call found none.
  absl::StatusOr<std::string> Find(const std::vector<std::string>& hashes);

 private:
  using Found = std::map<std::string, std::string>;  // ids of episodes by their hashes

  absl::StatusOr<Found> ReadAll();

  datapool::Client* const pool_;
  base::Mutex mu_;
  base::CondVar changed_;
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0, ended_ ABSL_GUARDED_BY(mu_) = 0;  // scans, one at a time
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<const absl::StatusOr<Found>> last_ ABSL_GUARDED_BY(mu_);  // of the reading that ended last
};

}  // namespace ingot::gateway
