#include "agents/snapshots.h"

#include <utility>

#include "agents/episode_run.h"
#include "agents/send_files.h"
#include "base/log.h"
#include "base/utf8.h"

namespace ingot::agents {
namespace {

// The time that a poll for requests may wait. Stopping the runner waits for the poll.
constexpr int64_t kAskWaitMs = 250;
constexpr int kFileSenders = 4;

}  // namespace

Snapshots::Snapshots(const RunnerOptions& options, Episodes& episodes, GatewayRetry& retry, const base::Clock& clock)
    : options_(options),
      episodes_(episodes),
      retry_(retry),
      clock_(clock),
      held_(static_cast<size_t>(options.max_snapshots)),
      senders_({.name = "files", .threads = kFileSenders}, clock),
      taker_({.name = "snapshots", .threads = 1}, clock) {}

Snapshots::~Snapshots() {
  taker_.Shutdown();
  senders_.Shutdown();
}

void Snapshots::Start() {
  taker_.Post([this] { TakeAll(); });
}

void Snapshots::StopEpisodes() {
  base::MutexLock lock(mu_);
  stopping_ = true;
  for (const auto& [id, live] : live_) live.episode->Stop();
}

std::shared_ptr<LiveEpisode> Snapshots::Enter(const v1::EpisodeOpenResponse& episode) {
  auto live = std::make_shared<LiveEpisode>();
  base::MutexLock lock(mu_);
  live_[episode.episode_id()] = {live, episode.ref().group_id()};
  if (stopping_) live->Stop();
  return live;
}

void Snapshots::Leave(const v1::EpisodeOpenResponse& episode) {
  base::MutexLock lock(mu_);
  live_.erase(episode.episode_id());
}

void Snapshots::TakeAll() {
  v1::NextSnapshotRequest request;
  request.set_wait_ms(kAskWaitMs);
  while (!retry_.stopped()) {
    const auto next = episodes_.NextSnapshot(request);
    if (next.ok() && next->episode_id().empty()) continue;
    if (next.ok()) {
      TakeSnapshot(*next);
      continue;
    }
    retry_.WaitUntil(clock_.Now() + base::FromSeconds(options_.backoff_max_s));
  }
}

void Snapshots::TakeSnapshot(const v1::NextSnapshotResponse& request) {
  if (!request.transfer_id().empty()) return PostFilesOf(request);
  if (request.ends()) {
    base::MutexLock lock(mu_);
    const auto live = live_.find(request.episode_id());
    // Otherwise, the episode is ending anyway, and its end is reported to the gateway.
    if (live != live_.end()) live->second.episode->Fork(request.snapshot_id());
    return;
  }
  const absl::Status held = HoldOne(request);
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id(request.snapshot_id());
  if (!held.ok()) taken.set_error(base::ToUtf8(std::string(held.message())));
  const absl::Status reported =
      retry_.Persist("a gateway that takes snapshots", [&] { return episodes_.SnapshotTaken(taken); });
  if (!reported.ok() && !absl::IsNotFound(reported)) {
    INGOT_LOG(warn, "the gateway does not know of snapshot {}: {}", request.snapshot_id(), reported.ToString());
  }
}

absl::Status Snapshots::HoldOne(const v1::NextSnapshotResponse& request) {
  if (held_.Find(request.snapshot_id()) != nullptr) return absl::OkStatus();  // requested again
  Live live;
  {
    base::MutexLock lock(mu_);
    const auto found = live_.find(request.episode_id());
    if (found == live_.end()) return absl::FailedPreconditionError("no agent of the episode runs here");
    live = found->second;
  }
  INGOT_ASSIGN_OR_RETURN(auto files, live.episode->TakeSnapshot());
  return held_.Add(request.snapshot_id(), live.group_id, std::move(files));
}

void Snapshots::PostFilesOf(const v1::NextSnapshotResponse& request) {
  {
    base::MutexLock lock(mu_);
    if (sending_.contains(request.transfer_id())) return;  // requested again
    if (sending_.size() < kFileSenders) {
      sending_.insert(request.transfer_id());
      senders_.Post([this, request] {
        SendFilesOf(request);
        base::MutexLock lock(mu_);
        sending_.erase(request.transfer_id());
      });
      return;
    }
  }
  v1::SnapshotFilesPart busy;
  busy.set_transfer_id(request.transfer_id());
  busy.set_error(absl::StrCat("the runner sends files to ", kFileSenders, " readers, its limit: try again later"));
  const absl::Status ignored = episodes_.SendSnapshotFiles(busy);  // if the request is still pending, it is resent
}

void Snapshots::SendFilesOf(const v1::NextSnapshotResponse& request) {
  const HeldSnapshots::Files files = held_.Find(request.snapshot_id());
  const absl::Status sent = SendFiles(files.get(), request, [this](const v1::SnapshotFilesPart& part) {
    if (retry_.stopped()) return absl::CancelledError("the runner was stopped");
    return retry_.Persist("a reader of a snapshot's files", [&] { return episodes_.SendSnapshotFiles(part); });
  });
  if (!sent.ok() && !absl::IsNotFound(sent)) {  // NOT_FOUND = the reader disconnected or got the error
    INGOT_LOG(warn, "the files of snapshot {} were not sent: {}", request.snapshot_id(), sent.ToString());
  }
}

}  // namespace ingot::agents
