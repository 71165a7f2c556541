// Settings for a pool in PostgreSQL (datapool/postgres/postgres_database.h). Bind declares each key with its
// description and bounds.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::datapool {

class PostgresServers;

struct PostgresOptions {
  std::string url;  // all its hosts are queried in parallel
  std::string name;
  std::string run_id;    // the run that owns the pool
  bool replace = false;  // deletes another run's pool with the same name
  bool allow_single = false;
  bool read_only = false;  // opens an existing pool read-only
  double answer_timeout_s = 20.0;
  double retry_after_error_s = 1.0;          // minimum time between connection attempts after an error; >= 0
  std::string folder;                        // stores the servers' timelines (PostgresTimelines); empty = not stored
  std::shared_ptr<PostgresServers> servers;  // the servers in `url`, shared by all shards; null = one per shard

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, PostgresOptions& options);

}  // namespace ingot::datapool
