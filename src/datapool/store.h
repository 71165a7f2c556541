// The data pool, with one or more shards, on RocksDB or PostgreSQL. A RocksDB pool owns a directory, which only one
// process at a time can open.
//
//   callers --mutation--> commit queue --one batch, one fsync for all that wait--> Database <--snapshots-- readers
//
// A mutation is checked against all earlier mutations and returns after the fsync. RocksDB reads do not wait for
// writes. PostgreSQL reads wait for a commit that confirms them (datapool/confirmed_read.h).
//
// After a failed write (disk full, I/O error), mutations return RESOURCE_EXHAUSTED or UNAVAILABLE without storing
// anything. Reads continue to work. Later mutations trigger a recovery attempt, at most once every
// `retry_after_error_s`.
//
// Invariants in addition to proto/datapool.proto:
//   1. A stored call references only stored segments in its group, and its sampled keys reference sampled segments.
//   2. Segments exist as long as their group has an episode. A serving episode is its own group.
//   3. At most one attempt at a training or evaluation sample is open, and it is the newest one.
//   4. A repeated StoreEpisode or StoreEnd may have a different timestamp. The store keeps the first one.
//   5. Call rewards refer to calls in their own episode.
//
// Thread safe.
//
// A read-only pool takes no lock and writes nothing. It can open a pool that another process is writing, or a copy
// without write permission, and shows the pool's state at that time. Its mutations return FAILED_PRECONDITION.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/client.h"
#include "datapool/postgres/postgres_options.h"

namespace ingot::base {
class Schema;
}

namespace rocksdb {
class Env;
}

namespace ingot::datapool {

// Bind declares each key with its description, bounds, and choices.
struct StoreOptions {
  std::string path;  // the pool's directory; created if missing
  int shards = 1;
  bool sync = true;
  int64_t cache_bytes = int64_t{64} << 20;
  int64_t write_buffer_bytes = int64_t{64} << 20;  // kept in memory before being written to a table file
  int64_t max_call_bytes = int64_t{64} << 20;      // maximum size of one AppendCall, including its segments
  int max_waiting = 4096;
  double retry_after_error_s = 5.0;
  bool read_only = false;           // opens an existing pool read-only
  std::string backend = "rocksdb";  // postgres = the records are in a database, and `path` identifies the run
  PostgresOptions postgres;         // run_id is read from the file `path`/run_id

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, StoreOptions& options);

// Checks everything that OpenPool requires except the files. Does not change anything. Fails with the same errors as
// OpenPool.
absl::Status CheckPool(const StoreOptions& options);

// Opens or creates the pool at `options.path`. On a full disk, an existing pool opens in the same state as after a
// failed write. Errors:
//
//   FAILED_PRECONDITION  created with a different schema or shard count, or not a pool; PostgreSQL rejects the user,
//                        its settings can lose acknowledged records, or another run owns the pool with this name
//   NOT_FOUND            read_only, and there is no pool
//   UNAVAILABLE          another process has the pool open for writing; no writable PostgreSQL server answers
//   INVALID_ARGUMENT     postgres.url is not a connection string
//   DATA_LOSS            its files are damaged
//   RESOURCE_EXHAUSTED   the disk is full, and there is no pool to read
//
// REQUIRES: `clock` outlives the pool.
absl::StatusOr<std::unique_ptr<Client>> OpenPool(const StoreOptions& options,
                                                 const base::Clock& clock = base::Clock::Real());

// One shard, stored directly in `options.path`. Programs call OpenPool; tests open a single shard.
class Store final : public Client {
 public:
  // `shard` is the shard index, below options.shards. `env` is the RocksDB environment, for fault injection; null = the
  // default.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options, int shard = 0,
                                                     const base::Clock& clock = base::Clock::Real(),
                                                     rocksdb::Env* env = nullptr);
  ~Store() override;

  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override;
  absl::Status AppendCall(const v1::AppendCallRequest& request) override;
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override;
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override;
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) override;
  absl::Status StoreGrades(const v1::StoreGradesRequest& request) override;
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override;
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override;
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override;
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override;
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override;
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override;
  absl::StatusOr<v1::PoolStatusResponse> Status() override;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::datapool
