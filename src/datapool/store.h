// The data pool: one shard, or a pool of them, on RocksDB or over another database. A pool on RocksDB owns a folder,
// and one process has it open at a time.
//
//   callers --mutation--> commit queue --one batch, one fsync for all that wait--> Database <--snapshots-- readers
//
// A mutation is checked against all mutations before it, and returns after the fsync. Reads of RocksDB do not wait for
// writes; reads of PostgreSQL wait for a commit that confirms them (datapool/confirmed_read.h).
// After a failed write (disk full, I/O error) mutations return RESOURCE_EXHAUSTED or UNAVAILABLE and store nothing.
// Reads continue. A later mutation makes the store try to recover, at most every `retry_after_error_s`.
//
// Invariants beyond proto/datapool.proto:
//   1. A stored call names stored segments of its group only, and its sampled keys name sampled segments.
//   2. A segment lives as long as its group has an episode. A serving episode is its own group.
//   3. Of one sample of a training or evaluation group at most the newest attempt is open.
//   4. A repeated StoreEpisode or StoreEnd may have another time; the first time stays.
//   5. Rewards of calls name calls of their episode.
// Thread safe.
//
// A read-only pool takes no lock and writes nothing: it shows a pool that another process writes, or a copy without
// write permission, as it was when opened. Its mutations are FAILED_PRECONDITION.
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

// Bind declares each key with its meaning, bounds and choices.
struct StoreOptions {
  std::string path;  // folder of the pool; made if absent
  int shards = 1;
  bool sync = true;
  int64_t cache_bytes = int64_t{64} << 20;
  int64_t write_buffer_bytes = int64_t{64} << 20;  // in memory before it goes to a table file
  int64_t max_call_bytes = int64_t{64} << 20;      // of one AppendCall with its segments
  int max_waiting = 4096;
  double retry_after_error_s = 5.0;
  bool read_only = false;           // opens an existing pool read-only
  std::string backend = "rocksdb";  // postgres: the records are in a database, `path` names the run
  PostgresOptions postgres;         // run_id is the content of the file `path`/run_id

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, StoreOptions& options);

// Whether OpenPool can succeed, as far as it does not depend on files. Changes nothing. Errors: OpenPool's.
absl::Status CheckPool(const StoreOptions& options);

// Opens the pool at `options.path`, or makes one. On a full disk an existing pool opens for reading, as after a failed
// write. Errors:
//   FAILED_PRECONDITION  made with another schema or another number of shards, or not a pool; PostgreSQL rejects the
//                        user, its settings can lose acknowledged records, or another run owns the pool of this name
//   NOT_FOUND            read_only, and there is no pool
//   UNAVAILABLE          another process has it open for writing; no writable PostgreSQL server answers
//   INVALID_ARGUMENT     postgres.url is not a connection string
//   DATA_LOSS            its files are damaged
//   RESOURCE_EXHAUSTED   the disk is full, and there is no pool to read
// REQUIRES: `clock` outlives the pool.
absl::StatusOr<std::unique_ptr<Client>> OpenPool(const StoreOptions& options,
                                                 const base::Clock& clock = base::Clock::Real());

// One shard, in `options.path` itself. Programs use OpenPool; tests open a shard.
class Store final : public Client {
 public:
  // `shard`: its number, below options.shards. `env`: RocksDB's view of the machine, for fault injection; null = the
  // real one.
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
