#include "agents/runner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "agents/episode_servers.h"
#include "agents/send_files.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/retry.h"
#include "sandbox/relay.h"

namespace ingot::agents {
namespace {

using std::chrono::nanoseconds;

// The cause of an attempt that does not count (agents/episode_run.h).
constexpr char kStopped[] = "stopped";
constexpr char kNoSnapshot[] = "snapshot";
constexpr char kEndTaker[] = "a gateway that takes the end of an episode";
// The longest that one request for asks waits: Stop waits for it.
constexpr int64_t kAskWaitMs = 250;
constexpr int kFileSenders = 4;
constexpr size_t kMostCauseBytes = 300;  // of a wait's cause

std::string CurrentFolder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

const std::string& OwnersKey(const v1::EpisodeOpenResponse& episode) {
  return episode.owner_key().empty() ? episode.api_key() : episode.owner_key();
}

// A gateway that is being ended answers CANCELLED.
bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kResourceExhausted || status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kCancelled;
}

std::string Cause(const char* waits_for, const absl::Status& status) {
  const std::string_view text(status.message().data(), status.message().size());
  return absl::StrCat(waits_for, " (", base::Printable(text, {.max_bytes = kMostCauseBytes}), ")");
}

// True: the gateway may have opened the episode although it answered with an error.
bool MayHaveOpened(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

// A failure of the machine or the configuration, not of this one agent: others will fail likewise.
bool IsOfSetup(const std::string& cause) {
  return cause == "sandbox" || cause == "disk" || cause == kNoSnapshot || cause == "setup" || cause == "mcp" ||
         cause == "service" || cause == "task" || cause == "verifier" || cause == "gateway";
}

// For a gateway of another process.
class RelayDoor final : public Door {
 public:
  absl::StatusOr<std::shared_ptr<void>> Open(sandbox::Fd listener, const std::string& base_url) override {
    INGOT_RETURN_IF_ERROR(relay_.status());
    return (*relay_)->Serve(std::move(listener), base_url);
  }

 private:
  const absl::StatusOr<std::shared_ptr<sandbox::Relay>> relay_ = sandbox::Relay::Start();
};

}  // namespace

struct Runner::Series {
  explicit Series(base::Metrics& metrics) : metrics(metrics) {}
  base::Metrics& metrics;
  base::Gauge& running = metrics.GetGauge("agents/running", "Episodes open now");
  base::Counter& opened = metrics.GetCounter("agents/opened", "Episodes opened");
  base::Counter& refused = metrics.GetCounter("agents/refused", "Admissions refused for lack of room");
  base::Counter& open_errors = metrics.GetCounter("agents/open_errors", "Admissions that failed otherwise");
  base::Counter& cpu_s = metrics.GetCounter("agents/cpu_seconds", "CPU time of agents");

  void Ended(const std::string& scaffold, const EpisodeReport& report) {
    const std::string& cause = report.cause;
    const std::string state = !cause.empty() ? "failed" : report.fork != nullptr ? "forked" : "finished";
    metrics.GetCounter("agents/episodes", "Episodes ended", {{"scaffold", scaffold}, {"state", state}}).Increment();
    if (!cause.empty()) {
      metrics.GetCounter("agents/failures", "Failed episodes by cause", {{"cause", cause}, {"scaffold", scaffold}})
          .Increment();
    }
    if (!report.agent_ran) return;
    cpu_s.Increment(report.cpu_s);
    metrics.GetHistogram("agent/completion_seconds", "Wall time of agents", {{"scaffold", scaffold}})
        .Observe(report.completion_s);
  }

  void RewardMean(const std::string& scaffold, double mean) {
    metrics.GetGauge("agents/reward_mean", "Mean reward of finished episodes", {{"scaffold", scaffold}}).Set(mean);
  }
};

absl::StatusOr<std::unique_ptr<Runner>> Runner::Make(const RunnerOptions& options,
                                                     std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes,
                                                     const base::Clock& clock, base::Metrics* metrics, Door* door) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (options.recipes.empty()) {
    return absl::InvalidArgumentError("agents.recipes is empty: name at least one agent to run");
  }
  std::vector<std::shared_ptr<const Recipe>> recipes;
  bool has_remote = false;  // an MCP server
  for (const RecipeOptions& recipe : options.recipes) {
    INGOT_ASSIGN_OR_RETURN(auto made, Recipe::Make(recipe));
    recipes.push_back(std::move(made));
    INGOT_RETURN_IF_ERROR(CheckServersReach(recipe, substrate->grant()));
    for (const McpServerOptions& server : recipe.mcp) has_remote = has_remote || server.command.empty();
  }
  std::unique_ptr<McpBridge> bridge;
  if (has_remote && substrate->grant().own_network) {
    INGOT_ASSIGN_OR_RETURN(bridge, McpBridge::Make());
  }
  std::unique_ptr<Runner> runner(
      new Runner(options, std::move(recipes), std::move(substrate), episodes, clock, metrics, door));
  runner->bridge_ = std::move(bridge);
  return runner;
}

Runner::Runner(const RunnerOptions& options, std::vector<std::shared_ptr<const Recipe>> recipes,
               std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes, const base::Clock& clock,
               base::Metrics* metrics, Door* door)
    : options_(options),
      substrate_(std::move(substrate)),
      recipes_(std::move(recipes)),
      episodes_(episodes),
      clock_(clock),
      own_door_(door == nullptr && substrate_->grant().own_network ? std::make_unique<RelayDoor>() : nullptr),
      door_(door != nullptr ? door : own_door_.get()),
      images_(std::make_unique<sandbox::ImageStore>(ImageStoreOf(options))),
      series_(metrics == nullptr ? nullptr : std::make_unique<Series>(*metrics)),
      cwd_(CurrentFolder()),
      metadata_(absl::StrCat(R"({"sandbox":)", substrate_->grant().Json(), "}")),
      held_(static_cast<size_t>(options.max_snapshots)),
      gate_(base::FromSeconds(options.backoff_initial_s), base::FromSeconds(options.backoff_max_s)),
      mix_(options_.recipes),
      snapshots_({.name = "snapshots", .threads = 1}, clock),
      senders_({.name = "files", .threads = kFileSenders}, clock),
      slots_({.name = "agents", .threads = 0}, clock) {}

Runner::~Runner() {
  if (const absl::Status stopped = Stop(); !stopped.ok()) INGOT_LOG(warn, "{}", std::string(stopped.message()));
  slots_.Shutdown();
  snapshots_.Shutdown();
  senders_.Shutdown();
}

absl::Status Runner::Start() {
  if (const absl::Status started = slots_.AddThreads(options_.concurrency); !started.ok()) {
    return base::Annotate(started, absl::StrCat("agents.concurrency is ", options_.concurrency, "; lower it"));
  }
  {
    base::MutexLock lock(mu_);
    live_slots_ = options_.concurrency;
  }
  for (int i = 0; i < options_.concurrency; ++i) slots_.Post([this] { Slot(); });
  snapshots_.Post([this] { TakeSnapshots(); });
  return absl::OkStatus();
}

absl::Status Runner::Stop() {
  cancel_.Cancel();
  base::MutexLock lock(mu_);
  stopping_ = true;
  for (const auto& [id, live] : live_) live.episode->Stop();
  changed_.SignalAll();
  if (AwaitSlots(clock_.Now() + base::FromSeconds(options_.stop_timeout_s))) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(live_slots_, " agent slots have not ended ", options_.stop_timeout_s,
                                                  " s after the stop: they wait for the gateway"));
}

bool Runner::WaitDone(nanoseconds timeout) {
  base::MutexLock lock(mu_);
  return AwaitSlots(clock_.Now() + timeout);
}

bool Runner::AwaitSlots(nanoseconds deadline) {
  while (live_slots_ > 0) {
    if (!clock_.WaitUntil(changed_, mu_, deadline)) return live_slots_ == 0;
  }
  return true;
}

RunnerStats Runner::Stats() const {
  base::MutexLock lock(mu_);
  RunnerStats stats = stats_;
  stats.snapshots = static_cast<int64_t>(held_.size());
  return stats;
}

void Runner::Slot() {
  nanoseconds penalty = base::FromSeconds(options_.backoff_initial_s);
  Opening opening;
  while (AwaitTurn(opening)) {
    const auto opened = episodes_.Open(RequestOf(opening));
    if (opened.ok()) held_.Free(opened->oldest_group());
    if (!Admitted(opening, opened)) continue;
    const int recipe = std::exchange(opening, {}).recipe;
    EpisodeReport report = RunOne(recipe, *opened);
    Report(*opened, report);
    Count(recipe, report);
    base::MutexLock lock(mu_);
    // As long as no agent has finished, a crash may be of the set-up as well.
    if (report.cause.empty() || (!IsOfSetup(report.cause) && stats_.finished > 0)) {
      penalty = base::FromSeconds(options_.backoff_initial_s);
      continue;
    }
    WaitUntil(clock_.Now() + penalty);
    penalty = std::min(penalty * 2, base::FromSeconds(options_.backoff_max_s));
  }
  base::MutexLock lock(mu_);
  --live_slots_;
  changed_.SignalAll();
}

bool Runner::AwaitTurn(Opening& opening) {
  base::MutexLock lock(mu_);
  while (!stopping_ && !stats_.done) {
    const bool has_room = opening.choice.has_value() || mix_.HasRoom();
    const nanoseconds now = clock_.Now();
    if (has_room && gate_.TryPass(now)) {
      if (!opening.choice.has_value()) opening = {mix_.Choose(), base::RandomHex(16)};
      return true;
    }
    // One waiting slot watches the clock; a change wakes the others.
    if (!has_room || gate_is_watched_ || now >= gate_.next()) {
      changed_.Wait(mu_);
    } else {
      gate_is_watched_ = true;
      clock_.WaitUntil(changed_, mu_, gate_.next());
      gate_is_watched_ = false;
    }
  }
  return false;
}

v1::EpisodeOpenRequest Runner::RequestOf(const Opening& opening) const {
  v1::EpisodeOpenRequest request;
  request.set_idempotency_key(opening.idempotency_key);
  request.set_metadata_json(metadata_);
  // A verified agent must not be able to post its own reward.
  const auto decides = [this](int recipe) { return recipe < 0 || recipes_[recipe]->verifier->decides(); };
  request.set_scaffold(NameOf(opening.choice->other));
  request.set_separate_owner(decides(opening.choice->other));
  for (const auto& [domain, recipe] : opening.choice->by_domain) {
    v1::DomainScaffold& named = *request.add_by_domain();
    named.set_domain(domain);
    named.set_scaffold(NameOf(recipe));
    named.set_separate_owner(decides(recipe));
  }
  // With several recipes an episode of another one could get the snapshot.
  request.set_can_fork(recipes_.size() == 1 && recipes_[0]->options.resumes);
  return request;
}

std::string Runner::NameOf(int recipe) const { return recipe < 0 ? "" : recipes_[recipe]->options.name; }

bool Runner::Admitted(Opening& opening, const absl::StatusOr<v1::EpisodeOpenResponse>& opened) {
  base::MutexLock lock(mu_);
  changed_.SignalAll();
  if (opened.ok()) {
    no_gateway_.reset();
    gate_.OnAdmitted();
    opening.recipe = mix_.Take(*opening.choice, opened->task().domain());
    last_open_error_ = absl::StatusCode::kOk;
    ++stats_.opened;
    ++stats_.running;
    if (series_) {
      series_->opened.Increment();
      series_->running.Set(static_cast<double>(stats_.running));
    }
    return true;
  }
  const absl::Status& status = opened.status();
  if (!MayHaveOpened(status)) {
    mix_.Drop(*opening.choice);
    opening = {};
  }
  if (status.code() == absl::StatusCode::kFailedPrecondition) {
    if (!stats_.done) INGOT_LOG(info, "no more episodes: {}", std::string(status.message()));
    stats_.done = true;
    return false;
  }
  std::optional<nanoseconds> retry_after;
  if (const auto ms = base::RetryAfterMs(status)) retry_after = std::chrono::milliseconds(std::max<int64_t>(*ms, 0));
  gate_.OnRefused(clock_.Now(), retry_after);
  const bool refused = status.code() == absl::StatusCode::kResourceExhausted;
  NoteGateway(refused ? absl::OkStatus() : status);
  ++(refused ? stats_.refused : stats_.open_errors);
  if (series_) (refused ? series_->refused : series_->open_errors).Increment();
  if (!refused && status.code() != last_open_error_) {
    INGOT_LOG(warn, "cannot open an episode, trying again: {}", status.ToString());
  }
  last_open_error_ = status.code();
  return false;
}

void Runner::NoteGateway(const absl::Status& answers) {
  if (answers.ok()) return no_gateway_.reset();
  const std::string cause = Cause("a gateway that opens episodes", answers);
  if (no_gateway_ == nullptr) no_gateway_ = std::make_unique<base::Wait>(cause);
  no_gateway_->Because(cause);
}

EpisodeReport Runner::RunOne(int recipe, const v1::EpisodeOpenResponse& episode) {
  if (recipe < 0) {
    EpisodeReport report;
    report.cause = "task";
    report.detail = absl::StrCat("no recipe is for the domain '", episode.task().domain(), "'");
    return report;
  }
  EpisodeContext context;
  context.substrate = substrate_.get();
  context.images = images_.get();
  context.door = door_;
  context.mcp = bridge_.get();
  context.cwd = cwd_;
  context.cancel = &cancel_;
  context.may_keep = [this] { return MayKeepFolder(); };
  if (episode.has_fork()) {
    context.from = held_.Find(episode.fork().snapshot_id());
    if (context.from == nullptr) {
      EpisodeReport report;
      report.cause = kNoSnapshot;
      report.detail = absl::StrCat("this runner does not hold the snapshot ", episode.fork().snapshot_id());
      return report;
    }
  }
  return RunLive(*recipes_[recipe], episode, std::move(context));
}

EpisodeReport Runner::RunLive(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, EpisodeContext context) {
  const auto live = std::make_shared<LiveEpisode>();
  context.live = live.get();
  {
    base::MutexLock lock(mu_);
    live_[episode.episode_id()] = {live, episode.ref().group_id()};
    if (stopping_) live->Stop();
  }
  EpisodeReport report = RunEpisode(recipe, episode, context);
  base::MutexLock lock(mu_);
  live_.erase(episode.episode_id());
  if (report.fork == nullptr) return report;
  const absl::Status held = held_.Add(live->fork_id(), episode.ref().group_id(), report.fork);
  if (held.ok()) return report;
  report.fork = nullptr;
  report.cause = "sandbox";
  report.detail = std::string(held.message());
  return report;
}

void Runner::TakeSnapshots() {
  v1::NextSnapshotRequest request;
  request.set_wait_ms(kAskWaitMs);
  while (!stopping()) {
    const auto ask = episodes_.NextSnapshot(request);
    if (ask.ok() && ask->episode_id().empty()) continue;
    if (ask.ok()) {
      TakeSnapshot(*ask);
      continue;
    }
    base::MutexLock lock(mu_);
    WaitUntil(clock_.Now() + base::FromSeconds(options_.backoff_max_s));
  }
}

void Runner::TakeSnapshot(const v1::NextSnapshotResponse& ask) {
  if (!ask.transfer_id().empty()) return PostFilesOf(ask);
  if (ask.ends()) {
    base::MutexLock lock(mu_);
    const auto live = live_.find(ask.episode_id());
    // Otherwise the episode ends anyway, which the gateway is told.
    if (live != live_.end()) live->second.episode->Fork(ask.snapshot_id());
    return;
  }
  const absl::Status held = HoldSnapshotOf(ask);
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id(ask.snapshot_id());
  if (!held.ok()) taken.set_error(ValidUtf8(std::string(held.message())));
  const absl::Status told =
      WithRetries("a gateway that takes snapshots", [&] { return episodes_.SnapshotTaken(taken); });
  if (!told.ok() && !absl::IsNotFound(told)) {
    INGOT_LOG(warn, "the gateway does not know of snapshot {}: {}", ask.snapshot_id(), told.ToString());
  }
}

void Runner::PostFilesOf(const v1::NextSnapshotResponse& ask) {
  {
    base::MutexLock lock(mu_);
    if (sending_.contains(ask.transfer_id())) return;  // asked for once more
    if (sending_.size() < kFileSenders) {
      sending_.insert(ask.transfer_id());
      senders_.Post([this, ask] {
        SendFilesOf(ask);
        base::MutexLock lock(mu_);
        sending_.erase(ask.transfer_id());
      });
      return;
    }
  }
  v1::SnapshotFilesPart busy;
  busy.set_transfer_id(ask.transfer_id());
  busy.set_error(absl::StrCat("the runner sends files to ", kFileSenders, " readers: try again later"));
  const absl::Status ignored = episodes_.SendSnapshotFiles(busy);  // an ask that stands is given again
}

void Runner::SendFilesOf(const v1::NextSnapshotResponse& ask) {
  const HeldSnapshots::Files files = held_.Find(ask.snapshot_id());
  const absl::Status sent = SendFiles(files.get(), ask, [this](const v1::SnapshotFilesPart& part) {
    if (stopping()) return absl::CancelledError("the runner was stopped");
    return WithRetries("a reader of a snapshot's files", [&] { return episodes_.SendSnapshotFiles(part); });
  });
  if (!sent.ok() && !absl::IsNotFound(sent)) {  // NOT_FOUND: the reader went away, or was told
    INGOT_LOG(warn, "the files of snapshot {} were not sent: {}", ask.snapshot_id(), sent.ToString());
  }
}

absl::Status Runner::HoldSnapshotOf(const v1::NextSnapshotResponse& ask) {
  if (held_.Find(ask.snapshot_id()) != nullptr) return absl::OkStatus();  // asked for once more
  Live live;
  {
    base::MutexLock lock(mu_);
    const auto found = live_.find(ask.episode_id());
    if (found == live_.end()) return absl::FailedPreconditionError("no agent of the episode runs here");
    live = found->second;
  }
  INGOT_ASSIGN_OR_RETURN(auto files, live.episode->TakeSnapshot());
  return held_.Add(ask.snapshot_id(), live.group_id, std::move(files));
}

absl::Status Runner::Post(const v1::EpisodeOpenResponse& episode, double earned,
                          const std::map<std::string, double>& signals,
                          const std::map<std::string, std::string>& facts) {
  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(episode.episode_id());
  reward.set_api_key(OwnersKey(episode));
  reward.set_reward(earned);
  for (const auto& [name, value] : signals) (*reward.mutable_signals())[name] = value;
  for (const auto& [name, json] : facts) (*reward.mutable_facts())[name] = json;
  return WithRetries(kEndTaker, [&] { return episodes_.Reward(reward); });
}

absl::Status Runner::Finish(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report) {
  absl::Status ended = End(episode, v1::EPISODE_FINISHED, report.detail).status();
  if (report.has_reward || !absl::IsFailedPrecondition(ended)) return ended;
  // The agent was to post a reward and has posted none: its own doing, like a missing answer.
  std::map<std::string, double> signals = report.signals;
  signals["answer_malformed"] = 1;
  if (!Post(episode, 0, signals, report.facts).ok()) return ended;
  return End(episode, v1::EPISODE_FINISHED, "the agent has posted no reward").status();
}

void Runner::Report(const v1::EpisodeOpenResponse& episode, EpisodeReport& report) {
  absl::Status ended;
  if (report.fork != nullptr) {
    ended = End(episode, v1::EPISODE_FORKED, "").status();
    if (ended.ok()) return;
    report.fork = nullptr;
    report.cause = IsTransient(ended) && stopping() ? kStopped : "gateway";
    report.detail = absl::StrCat("the fork was not taken: ", ended.message());
  } else if (report.cause.empty()) {
    // Without a reward here, the agent posted its own, which must stand.
    const absl::Status posted =
        report.has_reward ? Post(episode, report.reward, report.signals, report.facts) : absl::OkStatus();
    if (posted.ok()) ended = Finish(episode, report);
    if (posted.ok() && ended.ok()) return;
    const absl::Status& refused = posted.ok() ? ended : posted;
    report.cause = IsTransient(refused) && stopping() ? kStopped : "gateway";
    report.detail = absl::StrCat("the ", posted.ok() ? "end" : "reward", " was not taken: ", refused.message());
  }
  if (ended.ok() || !IsTransient(ended)) {  // after a transient error the gateway may have accepted the end
    const v1::EpisodeState state = report.cause == kStopped  ? v1::EPISODE_FENCED
                                   : IsOfSetup(report.cause) ? v1::EPISODE_INFRASTRUCTURE_FAILED
                                                             : v1::EPISODE_FAILED;
    const auto failed = End(episode, state, absl::StrCat(report.cause, ": ", report.detail), report.cause);
    if (failed.ok() && !failed->last_refusal().empty()) {
      absl::StrAppend(&report.detail, "; the gateway's last refusal: ", failed->last_refusal());
    }
    ended = failed.status();
  }
  if (ended.ok()) return;
  INGOT_LOG(error, "the end of episode {} was not taken: {}", episode.episode_id(), ended.ToString());
  base::MutexLock lock(mu_);
  ++stats_.unreported;
}

absl::StatusOr<v1::EpisodeEndResponse> Runner::End(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state,
                                                   const std::string& detail, const std::string& cause) {
  v1::EpisodeEndRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(OwnersKey(episode));
  request.set_state(state);
  request.set_detail(ValidUtf8(detail));
  request.set_cause(cause);
  absl::StatusOr<v1::EpisodeEndResponse> ended;
  INGOT_RETURN_IF_ERROR(WithRetries(kEndTaker, [&] {
    ended = episodes_.End(request);
    return ended.status();
  }));
  return ended;
}

absl::Status Runner::WithRetries(const char* waits_for, const std::function<absl::Status()>& call) {
  const nanoseconds give_up = clock_.Now() + base::FromSeconds(options_.report_retry_s);
  nanoseconds wait = base::FromSeconds(options_.backoff_initial_s);
  std::optional<base::Wait> without;  // from the first failure on
  while (true) {
    const absl::Status status = call();
    if (!IsTransient(status)) return status;
    const std::string cause = Cause(waits_for, status);
    without.has_value() ? without->Because(cause) : (void)without.emplace(cause);
    base::MutexLock lock(mu_);
    if (stopping_ || clock_.Now() >= give_up) return status;
    WaitUntil(std::min(give_up, clock_.Now() + wait));
    wait = std::min(wait * 2, base::FromSeconds(options_.backoff_max_s));
  }
}

void Runner::Count(int recipe, const EpisodeReport& report) {
  const std::string& cause = report.cause;
  base::MutexLock lock(mu_);
  changed_.SignalAll();
  if (recipe >= 0) mix_.Ended(recipe);
  --stats_.running;
  if (report.agent_ran) {
    stats_.completion_s += report.completion_s;
    stats_.agent_cpu_s += report.cpu_s;
  }
  if (report.fork != nullptr) {
    ++stats_.forked;
  } else if (cause.empty()) {
    ++stats_.finished;
    stats_.reward_sum += report.reward;
    if (report.has_reward) {
      Rewards& rewards = rewards_[NameOf(recipe)];
      rewards.sum += report.reward;
      ++rewards.count;
      if (series_) series_->RewardMean(NameOf(recipe), rewards.sum / static_cast<double>(rewards.count));
    }
  } else {
    ++stats_.failed;
  }
  if (series_) {
    series_->running.Set(static_cast<double>(stats_.running));
    series_->Ended(NameOf(recipe), report);
  }
  if (cause.empty()) return;
  const int64_t count = ++stats_.failures[cause];
  // The log names the first ten of a cause, then every hundredth: a broken recipe must be seen but not fill the disk.
  if (cause != kStopped && (count <= 10 || count % 100 == 0)) {
    INGOT_LOG(warn, "an episode of '{}' failed ({}, {} so far): {}", NameOf(recipe), cause, count, report.detail);
  }
}

void Runner::WaitUntil(nanoseconds moment) {
  while (!stopping_ && clock_.Now() < moment) clock_.WaitUntil(changed_, mu_, moment);
}

bool Runner::stopping() const {
  base::MutexLock lock(mu_);
  return stopping_;
}

bool Runner::MayKeepFolder() {
  base::MutexLock lock(mu_);
  if (kept_folders_ >= options_.keep_failed_max) return false;
  ++kept_folders_;
  return true;
}

}  // namespace ingot::agents
