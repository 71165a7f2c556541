// Tracks the commits acknowledged to this process, per shard, and checks that a server has them.
//
// Timeline numbers do not prove ancestry, so each commit also writes its number into a row that no other process
// writes. If a server's row is below the last acknowledged number, the server lacks that commit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/postgres/postgres_connection.h"

namespace ingot::datapool {

struct PostgresCommits {
  std::string table;         // the shard's table, quoted, with its schema
  std::string key;           // key of the `meta` row that counts this process's commits
  std::string run_id;        // the run that owns the table
  int64_t acknowledged = 0;  // number of the last acknowledged commit
  std::string by;            // the server that acknowledged it
};

// Returns an explanation if the server behind `connection` lacks an acknowledged commit from one of `shards` and so
// must not lead. Empty = it has all of them. Skips tables that another run took over, because they contain no commits
// from this run. Fails with the same errors as PostgresConnection.
absl::StatusOr<std::string> MissingCommits(PostgresConnection& connection, const std::vector<PostgresCommits>& shards);

}  // namespace ingot::datapool
