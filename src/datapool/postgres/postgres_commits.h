// The commits that were acknowledged to this process, by shard, and whether a server has them.
//
// A timeline's number does not prove ancestry. So each commit also writes its number into a row that no other process
// writes. A server whose row is below the last acknowledged number lacks that commit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/postgres/postgres_connection.h"

namespace ingot::datapool {

struct PostgresCommits {
  std::string table;         // the shard's, quoted, with its schema
  std::string key;           // of the row in `meta` that counts this process's commits
  std::string run_id;        // of the run that owns the table
  int64_t acknowledged = 0;  // number of the last acknowledged commit
  std::string by;            // the server that acknowledged it
};

// Why the server of `connection` must not lead: it lacks acknowledged commits of one of `shards`. Empty = it has all. A
// table that another run took holds no commits of this one, so it is not checked. Errors: PostgresConnection's.
absl::StatusOr<std::string> MissingCommits(PostgresConnection& connection, const std::vector<PostgresCommits>& shards);

}  // namespace ingot::datapool
