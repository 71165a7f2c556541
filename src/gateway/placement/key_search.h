// Finds a key's open episode in the pool. The pool indexes episodes only by id, so the search scans all open episodes.
// Requests that arrive during a scan share the next one. Thread safe. Blocks on the pool.
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
  // `pool` must outlive this object. If it is null, nothing is found.
  explicit KeySearch(datapool::Client* pool) : pool_(pool) {}

  // Returns the id of the open training or evaluation episode with one of these hashes (Episode.key_hash), or "" if a
  // scan that began after this call found none.
  absl::StatusOr<std::string> Find(const std::vector<std::string>& hashes);

 private:
  using Found = std::map<std::string, std::string>;  // episode ids by hash

  absl::StatusOr<Found> ReadAll();

  datapool::Client* const pool_;
  base::Mutex mu_;
  base::CondVar changed_;
  // Scan counts. Only one scan runs at a time.
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0, ended_ ABSL_GUARDED_BY(mu_) = 0;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<const absl::StatusOr<Found>> last_ ABSL_GUARDED_BY(mu_);  // result of the latest scan
};

}  // namespace ingot::gateway
