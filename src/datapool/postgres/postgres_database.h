// The store's records in PostgreSQL: one table `record(family, key, value)` in its own schema, with keys in the same
// order as in RocksDB. The commit queue, the checks, and the record layout are the same as in a RocksDB pool.
//
//   commit queue ──one transaction for all that wait──▶ record      advisory lock: one writer of a shard at a time
//   readers      ──repeatable read, read only─────────▶ record
//
// Several processes may have the same shard open. Each commit rereads the counters. The transaction's lock serializes
// their commits. A process that is paused inside a commit loses its session, its transaction, and the lock after 10 s.
//
// A commit is acknowledged when it is on disk at the server and at the standbys in synchronous_standby_names. If a
// server's settings do not guarantee that, opening the database fails, and so do commits.
//
// The writer and the readers use the leading server (datapool/postgres/postgres_servers.h). A read alone proves
// nothing: a replaced primary also answers reads, as does a server that restarts with commits its standby never
// received. So if the server replicates, the store confirms each read with a commit that starts after it (ReadSource).
//
// A writer's connection begins with such a commit. Once that is acknowledged, the standby has all earlier commits.
//
// Timeline numbers do not prove ancestry: two separately promoted standbys have the same timeline number. So each
// commit also writes its number into a row that no other process writes. A server whose row is below the last
// acknowledged number lacks that commit and must not lead. A server that lacks a commit from one shard does not lead
// any of the pool's shards (PostgresServers::Acknowledge). Thread safe.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/database.h"
#include "datapool/postgres/postgres_options.h"

namespace ingot::datapool {

// Opens the database, and creates the tables on first use. `layout` is as for RocksDB. Fails with the errors of
// OpenPool, and with:
//
//   FAILED_PRECONDITION  a server setting could lose acknowledged commits; the message names the setting and its value
//   FAILED_PRECONDITION  the schema contains another run's pool (unless options.replace)
//   UNAVAILABLE          no writable server answers
//
// REQUIRES: `clock` outlives the database.
absl::StatusOr<std::unique_ptr<Database>> OpenPostgresDatabase(const PostgresOptions& options, int shard,
                                                               const std::string& layout, const base::Clock& clock);

// Returns options.servers if set, or else the servers in options.url. `check` = no watch and no changes.
absl::StatusOr<std::shared_ptr<PostgresServers>> PostgresServersOf(const PostgresOptions& options, bool check,
                                                                   const base::Clock& clock);

// Checks whether OpenPostgresDatabase can succeed for the shard: server, permissions, settings, owner, and schema.
// Changes nothing.
absl::Status CheckPostgres(const PostgresOptions& options, int shard, const std::string& layout);

}  // namespace ingot::datapool
