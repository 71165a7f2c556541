#include "datapool/sharded_pool.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/checksum.h"
#include "base/file.h"
#include "base/random.h"
#include "base/rng.h"
#include "datapool/keys.h"
#include "datapool/page.h"
#include "datapool/postgres/postgres_database.h"
#include "datapool/postgres/postgres_servers.h"
#include "datapool/store.h"
#include "datapool/trim_plan.h"
#include "datapool/validate.h"

namespace ingot::datapool {

namespace {

// Reads one shard's episodes in order, page by page.
class ShardPages {
 public:
  ShardPages(Client& shard, v1::ListEpisodesRequest request) : shard_(&shard), request_(std::move(request)) {}

  // Loads the next page. REQUIRES: !HasEpisode().
  absl::Status Load() {
    INGOT_ASSIGN_OR_RETURN(page_, shard_->ListEpisodes(request_));
    request_.set_after(page_.next());
    taken_ = 0;
    return absl::OkStatus();
  }
  bool HasEpisode() const { return taken_ < page_.episodes_size(); }
  v1::Episode PopEpisode() { return std::move(*page_.mutable_episodes(taken_++)); }
  bool AtEnd() const { return !HasEpisode() && !page_.more(); }
  // Returns the key of the next episode or, at the end of a page, the page's upper bound.
  std::string Place() const { return HasEpisode() ? OrderKey(page_.episodes(taken_)) : page_.next(); }

 private:
  Client* shard_;
  v1::ListEpisodesRequest request_;
  v1::ListEpisodesResponse page_;
  int taken_ = 0;
};

// Returns the run's id in the database. It is stored in the run's directory to distinguish the run from another one
// with the same name. If several processes create it at the same time, one of them wins.
absl::StatusOr<std::string> RunId(const StoreOptions& options) {
  namespace fs = std::filesystem;
  const std::string path = options.path + "/run_id";
  const absl::StatusOr<std::string> stored = base::ReadFile(path);
  if (stored.ok() || !absl::IsNotFound(stored.status())) return stored;
  if (options.read_only) return absl::NotFoundError(path + " is missing: it identifies the run in the database");
  std::error_code error;
  fs::create_directories(options.path, error);
  const std::string draft = absl::StrCat(path, ".", base::RandomHex(8));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::WriteFileDurably(draft, base::RandomHex(8)), "naming the run"));
  fs::create_hard_link(draft, path, error);
  if (error && error != std::errc::file_exists) {
    return absl::UnavailableError(absl::StrCat("cannot make ", path, ": ", error.message()));
  }
  fs::remove(draft, error);
  INGOT_RETURN_IF_ERROR(base::SyncDir(options.path));
  return base::ReadFile(path);
}

}  // namespace

absl::Status CheckPool(const StoreOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (options.backend != "postgres") return absl::OkStatus();
  PostgresOptions postgres = options.postgres;
  postgres.run_id = base::ReadFile(options.path + "/run_id").value_or("");
  postgres.folder = options.path;
  INGOT_ASSIGN_OR_RETURN(postgres.servers, PostgresServersOf(postgres, /*check=*/true, base::Clock::Real()));
  for (int i = 0; i < options.shards; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPostgres(postgres, i, LayoutName(i, options.shards)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Client>> OpenPool(const StoreOptions& options, const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::vector<std::unique_ptr<Client>> shards;
  StoreOptions shard = options;
  if (options.backend == "postgres") {
    INGOT_ASSIGN_OR_RETURN(shard.postgres.run_id, RunId(options));
    shard.postgres.read_only = options.read_only;
    shard.postgres.folder = options.path;
    INGOT_ASSIGN_OR_RETURN(shard.postgres.servers, PostgresServersOf(shard.postgres, /*check=*/false, clock));
  }
  for (int i = 0; i < options.shards; ++i) {
    shard.path = absl::StrCat(options.path, "/shard-", i);
    INGOT_ASSIGN_OR_RETURN(shards.emplace_back(), Store::Open(shard, i, clock));
  }
  if (shards.size() == 1) return std::move(shards[0]);
  return std::make_unique<ShardedPool>(std::move(shards));
}

ShardedPool::ShardedPool(std::vector<std::unique_ptr<Client>> shards, size_t max_remembered)
    : shards_(std::move(shards)), max_remembered_(std::max<size_t>(max_remembered, 1)) {}

Client& ShardedPool::ShardOfGroup(v1::EpisodePurpose purpose, int64_t group_id) {
  return *shards_[base::DeriveSeed(purpose, group_id) % shards_.size()];
}

Client& ShardedPool::ShardFor(const v1::Episode& episode) {
  if (episode.purpose() == v1::PURPOSE_SERVE) {
    return *shards_[base::Checksum64(episode.episode_id()) % shards_.size()];
  }
  return ShardOfGroup(episode.purpose(), episode.ref().group_id());
}

void ShardedPool::Remember(const std::string& episode_id, Client* shard) {
  base::MutexLock lock(mu_);
  // Any entry may be dropped, because Find queries the shards for a forgotten episode.
  if (remembered_.size() >= max_remembered_) remembered_.erase(remembered_.begin());
  remembered_[episode_id] = shard;
}

void ShardedPool::Forget(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  remembered_.erase(episode_id);
}

absl::StatusOr<Client*> ShardedPool::Find(const std::string& episode_id) {
  {
    base::MutexLock lock(mu_);
    if (const auto found = remembered_.find(episode_id); found != remembered_.end()) return found->second;
  }
  v1::GetEpisodeRequest request;
  request.set_episode_id(episode_id);
  absl::Status status;
  for (const std::unique_ptr<Client>& shard : shards_) {
    status = shard->GetEpisode(request).status();
    if (status.ok()) {
      Remember(episode_id, shard.get());
      return shard.get();
    }
    if (!absl::IsNotFound(status)) return status;  // this shard may have the episode
  }
  return status;
}

absl::Status ShardedPool::StoreEpisode(const v1::StoreEpisodeRequest& request) {
  const std::string& episode_id = request.episode().episode_id();
  Client* const home = &ShardFor(request.episode());
  absl::StatusOr<Client*> known = Find(episode_id);
  if (known.ok() && *known != home) {
    // The episode may have been trimmed since its shard was remembered.
    v1::GetEpisodeRequest get;
    get.set_episode_id(episode_id);
    if (absl::IsNotFound((*known)->GetEpisode(get).status())) {
      Forget(episode_id);
      known = Find(episode_id);
    }
  }
  if (!known.ok() && !absl::IsNotFound(known.status())) return known.status();
  // The shard that already has an episode with this id rejects another one.
  Client* const shard = known.ok() ? *known : home;
  const absl::Status status = shard->StoreEpisode(request);
  if (status.ok()) Remember(episode_id, shard);
  return status;
}

absl::Status ShardedPool::AppendCall(const v1::AppendCallRequest& request) {
  INGOT_ASSIGN_OR_RETURN(Client* const shard, Find(request.call().episode_id()));
  return shard->AppendCall(request);
}

absl::Status ShardedPool::StoreReward(const v1::StoreRewardRequest& request) {
  INGOT_ASSIGN_OR_RETURN(Client* const shard, Find(request.episode_id()));
  return shard->StoreReward(request);
}

absl::Status ShardedPool::StoreEnd(const v1::StoreEndRequest& request) {
  INGOT_ASSIGN_OR_RETURN(Client* const shard, Find(request.episode_id()));
  const absl::Status status = shard->StoreEnd(request);
  if (status.ok()) Forget(request.episode_id());
  return status;
}

absl::StatusOr<v1::EpisodeTree> ShardedPool::TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(Client* const shard, Find(request.episode_id()));
  return shard->TakeOverEpisode(request);
}

absl::Status ShardedPool::StoreGrades(const v1::StoreGradesRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateStoreGrades(request));
  return ShardOfGroup(request.purpose(), request.group_id()).StoreGrades(request);
}

absl::StatusOr<v1::EpisodeTree> ShardedPool::GetEpisode(const v1::GetEpisodeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(Client* const shard, Find(request.episode_id()));
  return shard->GetEpisode(request);
}

absl::StatusOr<v1::Group> ShardedPool::GetGroup(const v1::GetGroupRequest& request) {
  if (request.purpose() != v1::PURPOSE_SERVE) {
    return ShardOfGroup(request.purpose(), request.group_id()).GetGroup(request);
  }
  return absl::InvalidArgumentError("served episodes do not belong to a group");
}

absl::StatusOr<v1::ListEpisodesResponse> ShardedPool::ListEpisodes(const v1::ListEpisodesRequest& request) {
  INGOT_RETURN_IF_ERROR(ValidateListEpisodes(request));
  // Merges the shards' pages. Each requests a fraction of a page, so together they hold about one page.
  PageBound bound(request.limit(), request.max_bytes());
  v1::ListEpisodesRequest part = request;
  part.set_max_bytes(std::max<int64_t>(1, bound.max_bytes() / static_cast<int64_t>(shards_.size())));
  std::vector<ShardPages> pages;
  pages.reserve(shards_.size());
  std::multimap<std::string, ShardPages*> by_place;
  const auto enter = [&](ShardPages& shard) {
    if (!shard.AtEnd()) by_place.emplace(shard.Place(), &shard);
  };
  for (const std::unique_ptr<Client>& shard : shards_) {
    pages.emplace_back(*shard, part);
    INGOT_RETURN_IF_ERROR(pages.back().Load());
    enter(pages.back());
  }
  v1::ListEpisodesResponse response;
  std::string done = request.after();
  while (!by_place.empty()) {
    if (bound.Full(response.episodes_size())) {
      response.set_more(true);
      response.set_next(done);
      break;
    }
    auto first = by_place.extract(by_place.begin());
    done = std::move(first.key());
    ShardPages& shard = *first.mapped();
    if (shard.HasEpisode()) {
      v1::Episode& episode = *response.add_episodes();
      episode = shard.PopEpisode();
      bound.Add(static_cast<int64_t>(episode.ByteSizeLong()));
    } else {
      INGOT_RETURN_IF_ERROR(shard.Load());
      if (!shard.HasEpisode()) bound.Add(part.max_bytes());  // the bytes that the shard may have visited
    }
    enter(shard);
  }
  return response;
}

absl::StatusOr<int64_t> ShardedPool::AppendJournal(const v1::AppendJournalRequest& request) {
  return shards_[0]->AppendJournal(request);
}

absl::StatusOr<v1::ReadJournalResponse> ShardedPool::ReadJournal(const v1::ReadJournalRequest& request) {
  return shards_[0]->ReadJournal(request);
}

absl::StatusOr<v1::TrimResponse> ShardedPool::Trim(const v1::TrimRequest& request) {
  std::set<int64_t> groups(request.group_ids().begin(), request.group_ids().end());
  if (groups.empty()) {
    TrimPlan plan(request.checkpoint_step());
    for (JournalPages pages(*this); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pages.Next());
      for (const v1::JournalRecord& record : page.records()) plan.Add(record);
    }
    groups = plan.Groups();
  }
  std::vector<v1::TrimRequest> requests(shards_.size());
  for (const int64_t group : groups) {
    Client* const owner = &ShardOfGroup(v1::PURPOSE_TRAIN, group);
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].get() == owner) requests[i].add_group_ids(group);
    }
  }
  v1::TrimResponse response;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (requests[i].group_ids().empty()) continue;
    requests[i].set_checkpoint_step(request.checkpoint_step());
    INGOT_ASSIGN_OR_RETURN(const v1::TrimResponse part, shards_[i]->Trim(requests[i]));
    response.set_episodes_deleted(response.episodes_deleted() + part.episodes_deleted());
  }
  return response;
}

absl::StatusOr<v1::PoolStatusResponse> ShardedPool::Status() {
  v1::PoolStatusResponse total;
  for (size_t i = 0; i < shards_.size(); ++i) {
    INGOT_ASSIGN_OR_RETURN(const v1::PoolStatusResponse part, shards_[i]->Status());
    total.set_episodes(total.episodes() + part.episodes());
    total.set_calls(total.calls() + part.calls());
    total.set_segments(total.segments() + part.segments());
    total.set_segment_tokens(total.segment_tokens() + part.segment_tokens());
    total.set_recorded_tokens(total.recorded_tokens() + part.recorded_tokens());
    total.set_bytes_on_disk(total.bytes_on_disk() + part.bytes_on_disk());
    if (i > 0) continue;
    total.set_journal_end(part.journal_end());
    total.set_writer_token(part.writer_token());
  }
  return total;
}

}  // namespace ingot::datapool
