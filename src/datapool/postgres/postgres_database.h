// The store's records in PostgreSQL: one table `record(family, key, value)` in its own schema, ordered by key as
// RocksDB orders them. The commit queue, the checks and the layout of records are the same as for the pool on RocksDB.
//
//   commit queue ──one transaction for all that wait──▶ record      advisory lock: one writer of a shard at a time
//   readers      ──repeatable read, read only─────────▶ record
//
// Several processes may have one shard open; each commit reads the counters again. The transaction's lock makes their
// commits serial. A process that is paused inside a commit loses its session, its transaction and the lock after 10 s.
//
// A commit is acknowledged when the server and the standbys of synchronous_standby_names have it on disk. The opening
// and each commit reject a server whose settings do not guarantee that.
//
// Writer and readers use the server that leads (datapool/postgres/postgres_servers.h). A read proves nothing by itself:
// a primary that was replaced, and a server that starts again with commits that its standby never had, answer reads
// too. The store therefore confirms a read by a commit that began after it (ReadSource), where the server replicates.
//
// A writer's connection begins with such a commit: once it is acknowledged, the standby has all earlier ones.
//
// A timeline's number does not prove ancestry: two standbys promoted separately have the same number. So each commit
// also numbers itself in a row that no other process writes. A server whose row is below the last acknowledged number
// lacks that commit, and does not lead. A server that lacks a commit of one shard leads for none of the pool's shards
// (PostgresServers::Acknowledge). Thread safe.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/database.h"
#include "datapool/postgres/postgres_options.h"

namespace ingot::datapool {

// Makes the tables at the first opening. `layout`: as of a RocksDB pool. Errors: OpenPool's, and
//   FAILED_PRECONDITION  a setting of the server that loses acknowledged commits; the message names setting and value
//   FAILED_PRECONDITION  the schema holds the pool of another run (unless options.replace)
//   UNAVAILABLE          no writable server answers
// REQUIRES: `clock` outlives the database.
absl::StatusOr<std::unique_ptr<Database>> OpenPostgresDatabase(const PostgresOptions& options, int shard,
                                                               const std::string& layout, const base::Clock& clock);

// The servers of options.url, or options.servers if set. `check`: for a short check, without a watch and without
// changes.
absl::StatusOr<std::shared_ptr<PostgresServers>> PostgresServersOf(const PostgresOptions& options, bool check,
                                                                   const base::Clock& clock);

// Whether OpenPostgresDatabase of the shard can succeed: server, rights, settings, owner and schema. Changes nothing.
absl::Status CheckPostgres(const PostgresOptions& options, int shard, const std::string& layout);

}  // namespace ingot::datapool
