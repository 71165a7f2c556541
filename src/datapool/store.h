// The data pool on RocksDB: one shard, or a pool of them. Owns a folder; one process has it open at a time.
//
//   callers --mutation--> commit queue --one WriteBatch, one fsync for all that wait--> RocksDB <--snapshots-- readers
//
// A mutation is checked against everything before it, and written with its neighbours; it returns after the fsync.
// Reads do not wait for writes. After a failed write (disk full, I/O error) mutations answer RESOURCE_EXHAUSTED or
// UNAVAILABLE, nothing of them is stored, reads go on, and the store tries to recover at most every
// `retry_after_error_s`.
//
// What it holds to beyond proto/datapool.proto:
//   1. A stored call names stored segments only, and its sampled keys name sampled segments.
//   2. A segment lives as long as an episode that uses it.
//   3. Of one sample of a training or evaluation group at most the newest attempt is open.
//   4. Equality of a repeated OpenEpisode or EndEpisode does not look at its time; the first stands.
//   5. Rewards of calls name calls of their episode.
// Thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/client.h"

namespace rocksdb {
class Env;
}

namespace ingot::datapool {

struct StoreOptions {
  std::string path;                                // folder of the pool; made if it is not there
  int shards = 1;                                  // a pool keeps the number it was made with; 1 to 256
  bool sync = true;                                // fsync before a mutation returns; false only for tests
  int64_t cache_bytes = int64_t{64} << 20;         // of all shards, for reading; >= 0
  int64_t write_buffer_bytes = int64_t{64} << 20;  // of each shard, held before it goes to a table file; >= 1 MiB
  int64_t max_call_bytes = int64_t{64} << 20;      // of one AppendCall with its segments; > 0
  int max_waiting = 4096;                          // mutations that wait for an fsync, per shard; beyond: 429; > 0
  double retry_after_error_s = 5.0;                // least time between two attempts to recover; 0 to 86400

  absl::Status Validate() const;
};

// Opens the pool at `options.path`, or makes one. On a full disk an existing pool opens for reading, as after a failed
// write. Errors:
//   FAILED_PRECONDITION  made with another schema or another number of shards, or not a pool
//   UNAVAILABLE          another process has it open
//   DATA_LOSS            its files are damaged
//   RESOURCE_EXHAUSTED   the disk is full, and there is no pool to read
// REQUIRES: `clock` outlives the pool.
absl::StatusOr<std::unique_ptr<Client>> OpenPool(const StoreOptions& options,
                                                 const base::Clock& clock = base::Clock::Real());

// One shard, in `options.path` itself. OpenPool is the way in; tests and benchmarks use this one.
class Store final : public Client {
 public:
  // `shard` of options.shards. `env`: RocksDB's view of the machine, for fault injection; null: the real one.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options, int shard = 0,
                                                     const base::Clock& clock = base::Clock::Real(),
                                                     rocksdb::Env* env = nullptr);
  ~Store() override;

  absl::Status OpenEpisode(const v1::OpenEpisodeRequest& request) override;
  absl::Status AppendCall(const v1::AppendCallRequest& request) override;
  absl::Status RewardEpisode(const v1::RewardEpisodeRequest& request) override;
  absl::Status EndEpisode(const v1::EndEpisodeRequest& request) override;
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
