#include "datapool/store.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "datapool/call_mutations.h"
#include "datapool/commit_queue.h"
#include "datapool/database.h"
#include "datapool/episode_listing.h"
#include "datapool/episode_mutations.h"
#include "datapool/episode_record.h"
#include "datapool/journal_mutation.h"
#include "datapool/keys.h"
#include "datapool/page.h"
#include "datapool/recent_calls.h"
#include "datapool/serialize.h"
#include "datapool/trim_plan.h"
#include "datapool/validate.h"

namespace ingot::datapool {
namespace {

constexpr size_t kTrimEpisodes = 64;  // per commit, so that other mutations wait only briefly for a trim
constexpr size_t kTrimBatchBytes = 4 << 20;
constexpr size_t kRecentCalls = 16384;  // under 200 bytes each

absl::StatusOr<v1::EpisodeTree> LoadTree(const Database::Reader& reader, const std::string& episode_id,
                                         bool with_calls) {
  v1::EpisodeTree tree;
  INGOT_ASSIGN_OR_RETURN(*tree.mutable_episode(), LoadEpisode(reader, episode_id));
  if (!with_calls) return tree;
  const std::string prefix = EpisodePrefix(episode_id);
  absl::Status damage;
  INGOT_RETURN_IF_ERROR(reader.Scan(kCalls, prefix, prefix, [&](std::string_view, std::string_view value) {
    absl::StatusOr<v1::Call> call = ParseRecord<v1::Call>(value, "a call of episode '" + episode_id + "'");
    damage = call.status();
    if (call.ok()) *tree.add_calls() = *std::move(call);
    return damage.ok();
  }));
  INGOT_RETURN_IF_ERROR(damage);
  std::set<std::string> keys;
  for (const v1::Call& call : tree.calls()) {
    keys.insert(call.context_keys().begin(), call.context_keys().end());
    keys.insert(call.sampled_keys().begin(), call.sampled_keys().end());
  }
  const std::string group = SegmentPrefix(tree.episode());
  for (const std::string& key : keys) {
    const absl::StatusOr<std::string> stored = reader.Get(kSegments, group + key);
    if (absl::IsNotFound(stored.status())) {
      return absl::DataLossError("segment " + base::Hex(key) + " of episode '" + episode_id +
                                 "' is gone from the pool");
    }
    INGOT_RETURN_IF_ERROR(stored.status());
    INGOT_ASSIGN_OR_RETURN((*tree.mutable_segments())[base::Hex(key)],
                           ParseRecord<v1::Segment>(*stored, "segment " + base::Hex(key)));
  }
  return tree;
}

absl::StatusOr<std::set<int64_t>> CoveredGroups(const Database::Reader& reader, int64_t checkpoint_step) {
  TrimPlan plan(checkpoint_step);
  absl::Status damage;
  INGOT_RETURN_IF_ERROR(reader.Scan(kJournal, "", "", [&](std::string_view, std::string_view value) {
    const absl::StatusOr<v1::JournalRecord> record = ParseRecord<v1::JournalRecord>(value, "a journal record");
    if (record.ok()) plan.Add(*record);
    damage.Update(record.status());
    return damage.ok();
  }));
  INGOT_RETURN_IF_ERROR(damage);
  return plan.Groups();
}

// DATA_LOSS: the journal's last records are gone, or records without a count are there.
absl::Status CheckJournalEnd(const Database::Reader& reader) {
  const absl::StatusOr<std::string> counters = reader.Get(kMeta, "counters");
  if (!counters.ok() && !absl::IsNotFound(counters.status())) return counters.status();
  v1::PoolStatusResponse counted;
  if (counters.ok()) {
    INGOT_ASSIGN_OR_RETURN(counted, ParseRecord<v1::PoolStatusResponse>(*counters, "the counters"));
  }
  const absl::StatusOr<std::string> last = reader.LastKey(kJournal);
  if (!last.ok() && !absl::IsNotFound(last.status())) return last.status();
  const int64_t end = last.ok() ? static_cast<int64_t>(FromBigEndian(*last)) + 1 : 0;
  if (end == counted.journal_end()) return absl::OkStatus();
  return reader.Damaged(absl::StrCat("its journal ends at ", end, " instead of ", counted.journal_end()));
}

// Keys in `order`.
absl::StatusOr<std::vector<std::string>> EpisodesToTrim(const Database::Reader& reader,
                                                        const v1::TrimRequest& request) {
  std::set<int64_t> groups(request.group_ids().begin(), request.group_ids().end());
  if (groups.empty()) {
    INGOT_ASSIGN_OR_RETURN(groups, CoveredGroups(reader, request.checkpoint_step()));
  }
  std::vector<std::string> keys;
  for (const int64_t group : groups) {
    const std::string prefix = GroupPrefix(v1::PURPOSE_TRAIN, group);
    INGOT_RETURN_IF_ERROR(reader.Scan(kOrder, prefix, prefix, [&](std::string_view key, std::string_view) {
      keys.emplace_back(key);
      return true;
    }));
  }
  return keys;
}

}  // namespace

struct Store::Impl {
  Impl(const StoreOptions& store_options, const base::Clock& store_clock, std::unique_ptr<Database> files)
      : options(store_options), clock(store_clock), database(std::move(files)), queue(*database, options.max_waiting) {}

  const StoreOptions options;
  const base::Clock& clock;
  const std::unique_ptr<Database> database;
  CommitQueue queue;
  RecentCalls recent{kRecentCalls};
};

absl::Status StoreOptions::Validate() const {
  const auto check = [](bool good, const char* field, auto value, const char* range) {
    return good ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ": ", range));
  };
  if (backend != "rocksdb" && backend != "postgres") {
    return absl::InvalidArgumentError("backend is '" + backend + "': rocksdb or postgres");
  }
  if (backend == "postgres") INGOT_RETURN_IF_ERROR(base::Annotate(postgres.Validate(), "postgres"));
  if (path.empty()) return absl::InvalidArgumentError("path is empty: the pool needs a folder");
  INGOT_RETURN_IF_ERROR(check(shards >= 1 && shards <= 256, "shards", shards, "1 to 256"));
  INGOT_RETURN_IF_ERROR(check(cache_bytes >= 0, "cache_bytes", cache_bytes, "must be >= 0"));
  INGOT_RETURN_IF_ERROR(
      check(write_buffer_bytes >= 1 << 20, "write_buffer_bytes", write_buffer_bytes, "must be >= 1048576"));
  INGOT_RETURN_IF_ERROR(check(max_call_bytes > 0, "max_call_bytes", max_call_bytes, "must be > 0"));
  INGOT_RETURN_IF_ERROR(check(max_waiting > 0, "max_waiting", max_waiting, "must be > 0"));
  return check(retry_after_error_s >= 0 && retry_after_error_s <= 86400, "retry_after_error_s", retry_after_error_s,
               "0 to 86400");
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options, int shard, const base::Clock& clock,
                                                   rocksdb::Env* env) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, OpenDatabase(options, shard, clock, env));
  INGOT_RETURN_IF_ERROR(CheckJournalEnd(*database->Read()));
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(options, clock, std::move(database))));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

absl::Status Store::OpenEpisode(const v1::OpenEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateOpenEpisode(request));
  return impl_->queue.Run([&](Database::Batch& batch, v1::PoolStatusResponse& counters) {
    return StageOpenEpisode(batch, counters, request, impl_->clock.UnixNanos());
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
  // Another process may delete calls of shared records, and this one would not hear of it.
  if (impl_->database->shared()) return absl::OkStatus();
  if (!summary.episode_id.empty()) impl_->recent.Add(generation, request.call().call_id(), std::move(summary));
  return absl::OkStatus();
}

absl::Status Store::RewardEpisode(const v1::RewardEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateRewardEpisode(request));
  return impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageRewardEpisode(batch, request); });
}

absl::Status Store::EndEpisode(const v1::EndEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateEndEpisode(request));
  return impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageEndEpisode(batch, request); });
}

absl::StatusOr<v1::EpisodeTree> Store::TakeEpisode(const v1::TakeEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateTakeEpisode(request));
  INGOT_RETURN_IF_ERROR(impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageTakeEpisode(batch, request); }));
  // Nobody else adds to the episode by now.
  return LoadTree(*impl_->database->Read(), request.episode_id(), /*with_calls=*/true);
}

absl::Status Store::GradeGroup(const v1::GradeGroupRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateGradeGroup(request));
  return impl_->queue.Run(
      [&](Database::Batch& batch, v1::PoolStatusResponse&) { return StageGradeGroup(batch, request); });
}

absl::StatusOr<v1::EpisodeTree> Store::GetEpisode(const v1::GetEpisodeRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateGetEpisode(request));
  return LoadTree(*impl_->database->Read(), request.episode_id(), request.with_calls());
}

absl::StatusOr<v1::Group> Store::GetGroup(const v1::GetGroupRequest& request) {
  if (request.group_id() < 0) return absl::InvalidArgumentError(absl::StrCat("group_id is ", request.group_id()));
  if (request.purpose() == v1::PURPOSE_SERVE) {
    return absl::InvalidArgumentError("episodes that serve are in no group");
  }
  const std::unique_ptr<Database::Reader> reader = impl_->database->Read();
  const std::string prefix = GroupPrefix(request.purpose(), request.group_id());
  std::map<std::string, std::string> newest;  // sample -> episode; attempts ascend
  INGOT_RETURN_IF_ERROR(reader->Scan(kOrder, prefix, prefix, [&](std::string_view key, std::string_view) {
    newest[std::string(key.substr(0, kSamplePrefixBytes))] = key.substr(kOrderFixedBytes);
    return true;
  }));
  if (newest.empty()) {
    return absl::NotFoundError(
        absl::StrCat("group ", request.group_id(), " is not in the pool: no sample was opened, or it was trimmed"));
  }
  v1::Group group;
  group.set_group_id(request.group_id());
  for (const auto& [sample, episode_id] : newest) {
    INGOT_ASSIGN_OR_RETURN(*group.add_episodes(), LoadTree(*reader, episode_id, true));
  }
  *group.mutable_task() = group.episodes(0).episode().task();
  return group;
}

absl::StatusOr<v1::ListEpisodesResponse> Store::ListEpisodes(const v1::ListEpisodesRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateListEpisodes(request));
  const std::string first = GroupPrefix(request.purpose(), std::max<int64_t>(request.first_group(), 0));
  const std::string from = request.after().empty() ? first : std::max(first, request.after() + '\0');
  const std::unique_ptr<Database::Reader> reader = impl_->database->Read();
  EpisodeListing listing(*reader, request);
  INGOT_RETURN_IF_ERROR(reader->Scan(kOrder, BigEndian(request.purpose(), 1), from,
                                     [&](std::string_view key, std::string_view) { return listing.Visit(key); }));
  INGOT_RETURN_IF_ERROR(listing.status());
  return std::move(listing).response();
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
  const std::unique_ptr<Database::Reader> reader = impl_->database->Read();
  const absl::StatusOr<std::string> counters = reader->Get(kMeta, "counters");
  if (!counters.ok() && !absl::IsNotFound(counters.status())) return counters.status();
  v1::ReadJournalResponse response;
  if (counters.ok()) {
    INGOT_ASSIGN_OR_RETURN(const auto parsed, ParseRecord<v1::PoolStatusResponse>(*counters, "the counters"));
    response.set_end_index(parsed.journal_end());
  }
  PageBound bound(request.limit());
  absl::Status damage;
  INGOT_RETURN_IF_ERROR(
      reader->Scan(kJournal, "", BigEndian(request.from_index(), 8), [&](std::string_view, std::string_view value) {
        if (bound.Full(response.records_size())) return false;
        absl::StatusOr<v1::JournalRecord> record = ParseRecord<v1::JournalRecord>(value, "a journal record");
        damage = record.status();
        if (record.ok()) *response.add_records() = *std::move(record);
        bound.Add(static_cast<int64_t>(value.size()));
        return damage.ok();
      }));
  INGOT_RETURN_IF_ERROR(damage);
  return response;
}

absl::StatusOr<v1::TrimResponse> Store::Trim(const v1::TrimRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> order_keys, EpisodesToTrim(*impl_->database->Read(), request));
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

absl::StatusOr<v1::PoolStatusResponse> Store::Status() {
  const std::unique_ptr<Database::Reader> reader = impl_->database->Read();
  const absl::StatusOr<std::string> counters = reader->Get(kMeta, "counters");
  v1::PoolStatusResponse response;
  if (counters.ok()) {
    INGOT_ASSIGN_OR_RETURN(response, ParseRecord<v1::PoolStatusResponse>(*counters, "the counters"));
  } else if (!absl::IsNotFound(counters.status())) {
    return counters.status();
  }
  response.set_bytes_on_disk(reader->BytesOnDisk());
  return response;
}

}  // namespace ingot::datapool
