#include "datapool/store.h"

#include <utility>
#include <vector>

#include "base/config.h"
#include "datapool/call_mutations.h"
#include "datapool/commit_queue.h"
#include "datapool/confirmed_read.h"
#include "datapool/database.h"
#include "datapool/episode_mutations.h"
#include "datapool/journal_mutation.h"
#include "datapool/recent_calls.h"
#include "datapool/store_reads.h"
#include "datapool/validate.h"

namespace ingot::datapool {
namespace {

constexpr size_t kTrimEpisodes = 64;  // per commit, so that other mutations wait only briefly for a trim
constexpr size_t kTrimBatchBytes = 4 << 20;
constexpr size_t kRecentCalls = 16384;  // under 200 bytes each

}  // namespace

struct Store::Impl {
  Impl(const StoreOptions& store_options, const base::Clock& store_clock, std::unique_ptr<Database> files)
      : options(store_options), clock(store_clock), database(std::move(files)), queue(*database, options.max_waiting) {}

  // Same as ConfirmedRead.
  template <typename Function>
  auto Read(const Function& read) {
    return ConfirmedRead(*database, queue, read);
  }

  const StoreOptions options;
  const base::Clock& clock;
  const std::unique_ptr<Database> database;
  CommitQueue queue;
  RecentCalls recent{kRecentCalls};
};

void Bind(base::Schema& schema, StoreOptions& o) {
  schema.Choice("backend", &o.backend, {"rocksdb", "postgres"},
                "where the pool is stored: rocksdb: in the run's folder, written by one process; postgres: in a "
                "replicated PostgreSQL database");
  schema.Section("postgres", o.postgres);
  schema.Field("shards", &o.shards, "number of databases that episodes are spread over; fixed when the pool is created",
               base::InRange(1, 256));
  schema.Field("sync", &o.sync, "true: fsync before a write is acknowledged; false: only for tests");
  schema.Field("cache_bytes", &o.cache_bytes, "size of the read cache for all shards, including their indexes",
               base::NotNegative());
  schema.Field("write_buffer_bytes", &o.write_buffer_bytes, "size of each shard's write buffer",
               base::AtLeast(1 << 20));
  schema.Field("max_call_bytes", &o.max_call_bytes, "maximum size of one recorded call", base::Positive());
  schema.Field("retry_after_error_s", &o.retry_after_error_s,
               "minimum seconds between attempts to recover from a disk failure", base::InRange(0, 86400));
  schema.Field("max_waiting", &o.max_waiting,
               "maximum number of writes waiting for an fsync, per shard; further writes are rejected",
               base::Positive());
}

absl::Status StoreOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  if (backend == "postgres") INGOT_RETURN_IF_ERROR(base::Annotate(postgres.Validate(), "postgres"));
  return path.empty() ? absl::InvalidArgumentError("path is empty: set it to a folder for the pool") : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options, int shard, const base::Clock& clock,
                                                   rocksdb::Env* env) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, OpenDatabase(options, shard, clock, env));
  auto impl = std::make_unique<Impl>(options, clock, std::move(database));
  INGOT_RETURN_IF_ERROR(impl->Read(&CheckJournalEnd));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

absl::Status Store::StoreEpisode(const v1::StoreEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateStoreEpisode(request));
  return impl_->queue.Run([&](Database::Batch& batch, v1::PoolStatusResponse& counters) {
    return StageStoreEpisode(batch, counters, request, impl_->clock.UnixNanos());
  });
}

absl::Status Store::AppendCall(const v1::AppendCallRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateAppendCall(request, impl_->options.max_call_bytes));
  INGOT_ASSIGN_OR_RETURN(const PreparedCall prepared, PrepareCall(request));
  const uint64_t generation = impl_->recent.generation();
  CallSummary summary;
  INGOT_RETURN_IF_ERROR(impl_->queue.Run([&](Database::Batch& batch, v1::PoolStatusResponse& counters) {
    return StageAppendCall(batch, counters, prepared, impl_->recent, summary);
  }));
  // Another process may delete calls from shared records without notifying this process.
  if (impl_->database->shared()) return absl::OkStatus();
  if (!summary.episode_id.empty()) impl_->recent.Add(generation, request.call().call_id(), std::move(summary));
  return absl::OkStatus();
}

absl::Status Store::StoreReward(const v1::StoreRewardRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateStoreReward(request));
  return impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageStoreReward(batch, request); });
}

absl::Status Store::StoreEnd(const v1::StoreEndRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateStoreEnd(request));
  return impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageStoreEnd(batch, request); });
}

absl::StatusOr<v1::EpisodeTree> Store::TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateTakeOverEpisode(request));
  INGOT_RETURN_IF_ERROR(impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageTakeOverEpisode(batch, request); }));
  // Nothing else adds to the episode anymore.
  return impl_->Read(
      [&](const Database::Reader& reader) { return LoadTree(reader, request.episode_id(), /*with_calls=*/true); });
}

absl::Status Store::StoreGrades(const v1::StoreGradesRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateStoreGrades(request));
  return impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageStoreGrades(batch, request); });
}

absl::StatusOr<v1::EpisodeTree> Store::GetEpisode(const v1::GetEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateGetEpisode(request));
  return impl_->Read(
      [&](const Database::Reader& reader) { return LoadTree(reader, request.episode_id(), request.with_calls()); });
}

absl::StatusOr<v1::Group> Store::GetGroup(const v1::GetGroupRequest& request) {
  if (request.group_id() < 0) return absl::InvalidArgumentError(absl::StrCat("group_id is ", request.group_id()));
  if (request.purpose() == v1::PURPOSE_SERVE) {
    return absl::InvalidArgumentError("served episodes do not belong to a group");
  }
  return impl_->Read([&](const Database::Reader& reader) { return ReadGroup(reader, request); });
}

absl::StatusOr<v1::ListEpisodesResponse> Store::ListEpisodes(const v1::ListEpisodesRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateListEpisodes(request));
  return impl_->Read([&](const Database::Reader& reader) { return ReadEpisodes(reader, request); });
}

absl::StatusOr<int64_t> Store::AppendJournal(const v1::AppendJournalRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateAppendJournal(request, impl_->options.max_call_bytes));
  int64_t first_index = -1;
  INGOT_RETURN_IF_ERROR(impl_->queue.Run([&](Database::Batch& batch, v1::PoolStatusResponse& counters) {
    return StageAppendJournal(batch, counters, request, impl_->clock.UnixNanos(), first_index);
  }));
  return first_index;
}

absl::StatusOr<v1::ReadJournalResponse> Store::ReadJournal(const v1::ReadJournalRequest& request) {
  if (request.from_index() < 0) return absl::InvalidArgumentError(absl::StrCat("from_index is ", request.from_index()));
  if (request.limit() < 0) return absl::InvalidArgumentError(absl::StrCat("limit is ", request.limit()));
  return impl_->Read([&](const Database::Reader& reader) { return ReadJournalPage(reader, request); });
}

absl::StatusOr<v1::TrimResponse> Store::Trim(const v1::TrimRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> order_keys,
                         impl_->Read([&](const Database::Reader& reader) { return EpisodesToTrim(reader, request); }));
  v1::TrimResponse response;
  for (size_t start = 0; start < order_keys.size();) {
    size_t next = start;
    int64_t deleted = 0;
    INGOT_RETURN_IF_ERROR(impl_->queue.Run([&](Database::Batch& batch, v1::PoolStatusResponse& counters) {
      impl_->recent.ForgetAll();
      const int64_t before = counters.episodes();
      const size_t bytes = batch.bytes();
      for (next = start; next < order_keys.size() && next - start < kTrimEpisodes; ++next) {
        if (batch.bytes() - bytes > kTrimBatchBytes) break;
        INGOT_RETURN_IF_ERROR(StageDeleteEpisode(batch, counters, order_keys[next]));
      }
      deleted = before - counters.episodes();
      return absl::OkStatus();
    }));
    start = next;
    response.set_episodes_deleted(response.episodes_deleted() + deleted);
  }
  return response;
}

absl::StatusOr<v1::PoolStatusResponse> Store::Status() { return impl_->Read(&ReadStatus); }

}  // namespace ingot::datapool
