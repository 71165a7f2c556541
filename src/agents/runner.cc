#include "agents/runner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/log.h"
#include "base/random.h"
#include "base/retry.h"
#include "sandbox/workdir.h"

namespace ingot::agents {
namespace {

using std::chrono::nanoseconds;

// An injected clock can move without anyone being signalled: waits look at it this often.
constexpr nanoseconds kLongestNap = std::chrono::milliseconds(100);

// The cause that is nobody's fault (agents/episode_run.h).
constexpr char kStopped[] = "stopped";

std::string CurrentFolder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

const std::string& OwnersKey(const v1::EpisodeOpenResponse& episode) {
  return episode.owner_key().empty() ? episode.api_key() : episode.owner_key();
}

// CANCELLED is what a gateway answers that is itself being ended.
bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kResourceExhausted || status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kCancelled;
}

// The gateway may have opened the episode all the same.
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

// Failures that say something about the machine or the configuration, not about this one agent.
bool IsSystemic(const std::string& cause) {
  return cause == "sandbox" || cause == "setup" || cause == "task" || cause == "verifier" || cause == "gateway";
}

}  // namespace

struct Runner::Series {
  explicit Series(base::Metrics& metrics) : metrics(metrics) {}
  base::Metrics& metrics;
  base::Gauge& running = metrics.GetGauge("agents/running", "Episodes open now");
  base::Counter& opened = metrics.GetCounter("agents/opened", "Episodes opened");
  base::Counter& refused = metrics.GetCounter("agents/refused", "Admissions refused for lack of room");
  base::Counter& open_errors = metrics.GetCounter("agents/open_errors", "Admissions that failed otherwise");
  base::Counter& cpu_s = metrics.GetCounter("agents/cpu_seconds", "CPU time of agents");

  void Ended(const std::string& scaffold, const EpisodeReport& report, const std::string& cause) {
    const std::string state = cause.empty() ? "finished" : "failed";
    metrics.GetCounter("agents/episodes", "Episodes ended", {{"scaffold", scaffold}, {"state", state}}).Increment();
    if (!cause.empty()) {
      metrics.GetCounter("agents/failures", "Failed episodes by cause", {{"cause", cause}}).Increment();
    }
    if (!report.agent_ran) return;
    cpu_s.Increment(report.cpu_s);
    metrics.GetHistogram("agent/completion_seconds", "Wall time of agents", {{"scaffold", scaffold}})
        .Observe(report.completion_s);
  }
};

absl::StatusOr<std::unique_ptr<Runner>> Runner::Make(const RunnerOptions& options, Episodes& episodes,
                                                     const base::Clock& clock, base::Metrics* metrics) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (options.recipes.empty()) {
    return absl::InvalidArgumentError("agents.recipes is empty: name at least one agent to run");
  }
  std::vector<std::shared_ptr<const Recipe>> recipes;
  for (const RecipeOptions& recipe : options.recipes) {
    INGOT_ASSIGN_OR_RETURN(auto made, Recipe::Make(recipe));
    recipes.push_back(std::move(made));
  }
  return std::unique_ptr<Runner>(new Runner(options, std::move(recipes), episodes, clock, metrics));
}

Runner::Runner(const RunnerOptions& options, std::vector<std::shared_ptr<const Recipe>> recipes, Episodes& episodes,
               const base::Clock& clock, base::Metrics* metrics)
    : options_(options),
      recipes_(std::move(recipes)),
      episodes_(episodes),
      clock_(clock),
      series_(metrics == nullptr ? nullptr : std::make_unique<Series>(*metrics)),
      cwd_(CurrentFolder()),
      gate_(base::FromSeconds(options.backoff_initial_s), base::FromSeconds(options.backoff_max_s)),
      recipe_running_(recipes_.size()),
      recipe_started_(recipes_.size()) {}

Runner::~Runner() {
  if (const absl::Status stopped = Stop(); !stopped.ok()) INGOT_LOG(warn, "{}", std::string(stopped.message()));
  for (std::thread& slot : slots_) slot.join();
}

absl::Status Runner::Start() {
  if (const int removed = sandbox::RemoveStale(options_.work_root); removed > 0) {
    INGOT_LOG(info, "removed {} work folders that an earlier run left in {}", removed, options_.work_root);
  }
  for (int i = 0; i < options_.concurrency; ++i) {
    {
      base::MutexLock lock(mu_);
      ++live_slots_;
    }
    try {
      slots_.emplace_back([this] { Slot(); });
    } catch (const std::system_error& error) {
      base::MutexLock lock(mu_);
      --live_slots_;
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot start thread ", i + 1, " of agents.concurrency=", options_.concurrency, ": ", error.what()));
    }
  }
  return absl::OkStatus();
}

absl::Status Runner::Stop() {
  cancel_.Cancel();
  base::MutexLock lock(mu_);
  stopping_ = true;
  changed_.SignalAll();
  const auto deadline = std::chrono::steady_clock::now() + base::FromSeconds(options_.stop_timeout_s);
  while (live_slots_ > 0) {
    const nanoseconds left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      return absl::DeadlineExceededError(absl::StrCat(live_slots_, " agent slots have not ended ",
                                                      options_.stop_timeout_s,
                                                      " s after the stop: they wait for the gateway"));
    }
    changed_.WaitFor(mu_, left);
  }
  return absl::OkStatus();
}

bool Runner::WaitDone(nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  base::MutexLock lock(mu_);
  while (live_slots_ > 0) {
    const nanoseconds left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    changed_.WaitFor(mu_, left);
  }
  return true;
}

void Runner::WakeUp() {
  base::MutexLock lock(mu_);
  gate_.Nudge();
  changed_.SignalAll();
}

RunnerStats Runner::Stats() const {
  base::MutexLock lock(mu_);
  return stats_;
}

void Runner::Slot() {
  nanoseconds penalty = base::FromSeconds(options_.backoff_initial_s);
  Opening opening;
  while (AwaitTurn(opening)) {
    v1::EpisodeOpenRequest request;
    request.set_scaffold(recipes_[opening.recipe]->options.name);
    request.set_idempotency_key(opening.idempotency_key);
    // An agent that is judged must not be able to say itself what it earned.
    request.set_separate_owner(recipes_[opening.recipe]->verifier->decides());
    const auto opened = episodes_.Open(request);
    if (!Admitted(opening, opened)) continue;
    const int recipe = std::exchange(opening, {}).recipe;
    const EpisodeReport report = RunOne(*recipes_[recipe], *opened);
    const std::string cause = Report(*opened, report);
    Count(recipe, report, cause);
    if (!IsSystemic(cause)) {
      penalty = base::FromSeconds(options_.backoff_initial_s);
      continue;
    }
    base::MutexLock lock(mu_);
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
    const int recipe = opening.recipe >= 0 ? opening.recipe : ChooseRecipe();
    const nanoseconds now = clock_.Now();
    if (recipe >= 0 && gate_.TryPass(now)) {
      if (opening.recipe >= 0) return true;
      opening = {recipe, base::RandomHex(16)};
      ++recipe_running_[recipe];
      ++recipe_started_[recipe];
      return true;
    }
    // One of the waiting slots watches the clock; a change wakes the others.
    if (recipe < 0 || someone_times_the_gate_ || now >= gate_.next()) {
      changed_.Wait(mu_);
    } else {
      someone_times_the_gate_ = true;
      changed_.WaitFor(mu_, std::min(gate_.next() - now, kLongestNap));
      someone_times_the_gate_ = false;
    }
  }
  return false;
}

// Of the recipes with room, the one furthest behind its share; -1: none has room.
int Runner::ChooseRecipe() const {
  int best = -1;
  double best_share = 0;
  for (size_t i = 0; i < recipes_.size(); ++i) {
    const RecipeOptions& options = recipes_[i]->options;
    if (options.max_concurrent > 0 && recipe_running_[i] >= options.max_concurrent) continue;
    const double share = static_cast<double>(recipe_started_[i] + 1) / options.weight;
    if (best < 0 || share < best_share) {
      best = static_cast<int>(i);
      best_share = share;
    }
  }
  return best;
}

bool Runner::Admitted(Opening& opening, const absl::StatusOr<v1::EpisodeOpenResponse>& opened) {
  base::MutexLock lock(mu_);
  changed_.SignalAll();
  if (opened.ok()) {
    gate_.OnAdmitted();
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
    --recipe_running_[opening.recipe];
    --recipe_started_[opening.recipe];
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
  ++(refused ? stats_.refused : stats_.open_errors);
  if (series_) (refused ? series_->refused : series_->open_errors).Increment();
  if (!refused && status.code() != last_open_error_) {
    INGOT_LOG(warn, "cannot open an episode, trying again: {}", status.ToString());
  }
  last_open_error_ = status.code();
  return false;
}

EpisodeReport Runner::RunOne(const Recipe& recipe, const v1::EpisodeOpenResponse& episode) {
  EpisodeContext context;
  context.work_root = options_.work_root;
  context.cwd = cwd_;
  context.cancel = &cancel_;
  context.may_keep = [this] { return MayKeep(); };
  return RunEpisode(recipe, episode, context);
}

absl::Status Runner::Post(const v1::EpisodeOpenResponse& episode, double earned,
                          const std::map<std::string, double>& signals) {
  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(episode.episode_id());
  reward.set_api_key(OwnersKey(episode));
  reward.set_reward(earned);
  for (const auto& [name, value] : signals) (*reward.mutable_signals())[name] = value;
  return WithRetries([&] { return episodes_.Reward(reward); });
}

absl::Status Runner::Finish(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report) {
  absl::Status ended = End(episode, v1::EPISODE_FINISHED, report.detail);
  if (report.has_reward || !absl::IsFailedPrecondition(ended)) return ended;
  // It was for the agent to post a reward, and there is none: its doing, like an answer that is missing.
  std::map<std::string, double> signals = report.signals;
  signals["answer_malformed"] = 1;
  if (!Post(episode, 0, signals).ok()) return ended;
  return End(episode, v1::EPISODE_FINISHED, "the agent has posted no reward");
}

std::string Runner::Report(const v1::EpisodeOpenResponse& episode, const EpisodeReport& report) {
  std::string cause = report.cause, detail = report.detail;
  absl::Status ended;
  if (cause.empty()) {
    // Otherwise the agent has posted its own, which must stand.
    const absl::Status posted = report.has_reward ? Post(episode, report.reward, report.signals) : absl::OkStatus();
    if (posted.ok()) ended = Finish(episode, report);
    if (posted.ok() && ended.ok()) return "";
    const absl::Status& refused = posted.ok() ? ended : posted;
    cause = IsTransient(refused) && stopping() ? kStopped : "gateway";
    detail = absl::StrCat("the ", posted.ok() ? "end" : "reward", " was not taken: ", refused.message());
  }
  if (ended.ok() || !IsTransient(ended)) {  // otherwise it may have been taken
    ended =
        End(episode, cause == kStopped ? v1::EPISODE_FENCED : v1::EPISODE_FAILED, absl::StrCat(cause, ": ", detail));
  }
  if (!ended.ok()) {
    INGOT_LOG(error, "the end of episode {} was not taken: {}", episode.episode_id(), ended.ToString());
    base::MutexLock lock(mu_);
    ++stats_.unreported;
  }
  return cause;
}

absl::Status Runner::End(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state, const std::string& detail) {
  v1::EpisodeEndRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(OwnersKey(episode));
  request.set_state(state);
  request.set_detail(ValidUtf8(detail));
  return WithRetries([&] { return episodes_.End(request); });
}

// Repeats `call` while the gateway cannot be reached. Once the runner stops, a try that fails is the last.
template <typename Call>
absl::Status Runner::WithRetries(Call call) {
  const nanoseconds give_up = clock_.Now() + base::FromSeconds(options_.report_retry_s);
  nanoseconds wait = base::FromSeconds(options_.backoff_initial_s);
  while (true) {
    const absl::Status status = call();
    if (!IsTransient(status)) return status;
    base::MutexLock lock(mu_);
    if (stopping_ || clock_.Now() >= give_up) return status;
    WaitUntil(std::min(give_up, clock_.Now() + wait));
    wait = std::min(wait * 2, base::FromSeconds(options_.backoff_max_s));
  }
}

void Runner::Count(int recipe, const EpisodeReport& report, const std::string& cause) {
  base::MutexLock lock(mu_);
  changed_.SignalAll();
  --recipe_running_[recipe];
  --stats_.running;
  if (report.agent_ran) {
    stats_.completion_s += report.completion_s;
    stats_.agent_cpu_s += report.cpu_s;
  }
  if (cause.empty()) {
    ++stats_.finished;
    stats_.reward_sum += report.reward;
  } else {
    ++stats_.failed;
  }
  if (series_) {
    series_->running.Set(static_cast<double>(stats_.running));
    series_->Ended(recipes_[recipe]->options.name, report, cause);
  }
  if (cause.empty()) return;
  const int64_t count = ++stats_.failures[cause];
  // The first few of a kind, then a sample: a broken recipe must be seen but not fill the disk.
  if (cause != kStopped && (count <= 10 || count % 100 == 0)) {
    INGOT_LOG(warn, "an episode of '{}' failed ({}, {} so far): {}", recipes_[recipe]->options.name, cause, count,
              report.detail);
  }
}

void Runner::WaitUntil(nanoseconds moment) {
  for (nanoseconds now = clock_.Now(); !stopping_ && now < moment; now = clock_.Now()) {
    changed_.WaitFor(mu_, std::min(moment - now, kLongestNap));
  }
}

bool Runner::stopping() const {
  base::MutexLock lock(mu_);
  return stopping_;
}

bool Runner::MayKeep() {
  base::MutexLock lock(mu_);
  if (kept_ >= options_.keep_failed_max) return false;
  ++kept_;
  return true;
}

}  // namespace ingot::agents
