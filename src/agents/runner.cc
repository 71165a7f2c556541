#include "agents/runner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agents/episode_servers.h"
#include "agents/failure_causes.h"
#include "agents/gateway_relay.h"
#include "agents/live_episode.h"
#include "base/log.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/task_domain.h"
#include "base/waits.h"

namespace ingot::agents {
namespace {

using std::chrono::nanoseconds;

std::string CurrentFolder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

// Returns true if the gateway may have opened the episode even though it returned an error.
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

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> Runner::Make(const RunnerOptions& options,
                                                     std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes,
                                                     const base::Clock& clock, base::Metrics* metrics,
                                                     GatewayAccess* gateway_access) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (options.recipes.empty()) {
    return absl::InvalidArgumentError("agents.recipes is empty: add at least one recipe");
  }
  std::vector<std::shared_ptr<const Recipe>> recipes;
  bool has_remote = false;  // true = there is a remote MCP server
  for (const RecipeOptions& recipe : options.recipes) {
    INGOT_ASSIGN_OR_RETURN(auto made, Recipe::Make(recipe));
    const bool is_of_image =
        recipe.verifier.kind == "command" && !recipe.image.empty();  // its programs are in the image
    if (!is_of_image) {
      INGOT_RETURN_IF_ERROR(base::Annotate(made->verifier->TryProgram(*substrate, CurrentFolder()),
                                           absl::StrCat("agents.recipes '", recipe.name, "'")));
    }
    recipes.push_back(std::move(made));
    INGOT_RETURN_IF_ERROR(CheckServersReach(recipe, substrate->probe_result()));
    for (const McpServerOptions& server : recipe.mcp) has_remote = has_remote || server.command.empty();
  }
  std::unique_ptr<McpBridge> bridge;
  if (has_remote && substrate->probe_result().own_network) {
    INGOT_ASSIGN_OR_RETURN(bridge, McpBridge::Make());
  }
  std::unique_ptr<Runner> runner(
      new Runner(options, std::move(recipes), std::move(substrate), episodes, clock, metrics, gateway_access));
  runner->bridge_ = std::move(bridge);
  return runner;
}

Runner::Runner(const RunnerOptions& options, std::vector<std::shared_ptr<const Recipe>> recipes,
               std::unique_ptr<sandbox::Substrate> substrate, Episodes& episodes, const base::Clock& clock,
               base::Metrics* metrics, GatewayAccess* gateway_access)
    : options_(options),
      substrate_(std::move(substrate)),
      recipes_(std::move(recipes)),
      episodes_(episodes),
      clock_(clock),
      own_access_(gateway_access == nullptr && substrate_->probe_result().own_network ? std::make_unique<GatewayRelay>()
                                                                                      : nullptr),
      gateway_access_(gateway_access != nullptr ? gateway_access : own_access_.get()),
      images_(std::make_unique<sandbox::ImageStore>(
          ImageStoreOf(options),
          sandbox::ImageStoreOptions{
              .limits = {}, .build_hosts = options.image_build_hosts, .folders = options.image_folders})),
      cwd_(CurrentFolder()),
      metadata_(absl::StrCat(R"({"sandbox":)", substrate_->probe_result().Json(), "}")),
      retry_(options_, clock),
      snapshots_(options_, episodes, retry_, clock),
      reporter_(episodes, retry_),
      gate_(base::FromSeconds(options.backoff_initial_s), base::FromSeconds(options.backoff_max_s)),
      mix_(options_.recipes),
      tally_(metrics),
      slots_({.name = "agents", .threads = 0}, clock) {}

Runner::~Runner() {
  if (const absl::Status stopped = Stop(); !stopped.ok()) INGOT_LOG(warn, "{}", std::string(stopped.message()));
  slots_.Shutdown();
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
  snapshots_.Start();
  return absl::OkStatus();
}

absl::Status Runner::Stop() {
  cancel_.Cancel();
  images_->Stop();
  retry_.Stop();
  snapshots_.StopEpisodes();
  base::MutexLock lock(mu_);
  changed_.SignalAll();
  if (AwaitSlots(clock_.Now() + base::FromSeconds(options_.stop_timeout_s))) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(live_slots_, " agent slots have not ended ", options_.stop_timeout_s,
                                                  " s after the stop, because they are waiting for the gateway"));
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
  RunnerStats stats = tally_.stats();
  stats.snapshots = static_cast<int64_t>(snapshots_.held().size());
  return stats;
}

void Runner::Slot() {
  nanoseconds penalty = base::FromSeconds(options_.backoff_initial_s);
  Opening opening;
  while (AwaitTurn(opening)) {
    const auto opened = episodes_.Open(RequestOf(opening));
    if (opened.ok()) snapshots_.held().Free(opened->oldest_group());
    if (!Admitted(opening, opened)) continue;
    const int recipe = std::exchange(opening, {}).recipe;
    EpisodeReport report = RunOne(recipe, *opened);
    Settle(recipe, *opened, report);
    if (!MayBeOfSetup(report)) {
      penalty = base::FromSeconds(options_.backoff_initial_s);
      continue;
    }
    retry_.WaitUntil(clock_.Now() + penalty);
    penalty = std::min(penalty * 2, base::FromSeconds(options_.backoff_max_s));
  }
  base::MutexLock lock(mu_);
  --live_slots_;
  changed_.SignalAll();
}

bool Runner::AwaitTurn(Opening& opening) {
  base::MutexLock lock(mu_);
  while (!retry_.stopped() && !tally_.stats().done) {
    const bool has_room = opening.choice.has_value() || mix_.HasRoom();
    const nanoseconds now = clock_.Now();
    if (has_room && gate_.TryPass(now)) {
      if (!opening.choice.has_value()) opening = {mix_.Choose(), base::RandomHex(16)};
      return true;
    }
    // One waiting slot watches the clock. A change wakes the others.
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
  // If there is a verifier, the agent must not be able to post its own reward.
  const auto decides = [this](int recipe) { return recipe < 0 || recipes_[recipe]->verifier->decides(); };
  request.set_scaffold(NameOf(opening.choice->other));
  request.set_separate_owner(decides(opening.choice->other));
  for (const auto& [domain, recipe] : opening.choice->by_domain) {
    v1::DomainScaffold& named = *request.add_by_domain();
    named.set_domain(domain);
    named.set_scaffold(NameOf(recipe));
    named.set_separate_owner(decides(recipe));
  }
  // With several recipes, an episode with another recipe could get the snapshot.
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
    opening.recipe = mix_.TakeRecipe(*opening.choice, opened->task().domain());
    last_open_error_ = absl::StatusCode::kOk;
    tally_.CountOpened();
    return true;
  }
  const absl::Status& status = opened.status();
  if (!MayHaveOpened(status)) {
    mix_.Drop(*opening.choice);
    opening = {};
  }
  if (status.code() == absl::StatusCode::kFailedPrecondition) {
    if (!tally_.stats().done) INGOT_LOG(info, "no more episodes: {}", std::string(status.message()));
    tally_.Finish();
    return false;
  }
  std::optional<nanoseconds> retry_after;
  if (const auto ms = base::RetryAfterMs(status)) retry_after = std::chrono::milliseconds(std::max<int64_t>(*ms, 0));
  gate_.OnRejected(clock_.Now(), retry_after);
  const bool rejected = status.code() == absl::StatusCode::kResourceExhausted;
  NoteGateway(rejected ? absl::OkStatus() : status);
  rejected ? tally_.CountRejected() : tally_.CountOpenError();
  if (!rejected && status.code() != last_open_error_) {
    INGOT_LOG(warn, "cannot open an episode; retrying: {}", status.ToString());
  }
  last_open_error_ = status.code();
  return false;
}

void Runner::NoteGateway(const absl::Status& answers) {
  if (answers.ok()) return no_gateway_.reset();
  const std::string cause = base::WaitCause("a gateway that opens episodes", answers);
  if (no_gateway_ == nullptr) no_gateway_ = std::make_unique<base::Wait>(cause);
  no_gateway_->Because(cause);
}

EpisodeReport Runner::RunOne(int recipe, const v1::EpisodeOpenResponse& episode) {
  if (recipe < 0) {
    EpisodeReport report;
    report.cause = "task";
    report.detail = absl::StrCat("no recipe is for the domain '", base::DomainOf(episode.task().domain()), "'");
    return report;
  }
  EpisodeContext context;
  context.substrate = substrate_.get();
  context.images = images_.get();
  context.gateway_access = gateway_access_;
  context.mcp = bridge_.get();
  context.cwd = cwd_;
  context.cancel = &cancel_;
  context.messages = [this, &episode] { return reporter_.Messages(episode); };
  context.may_keep = [this] { return MayKeepFolder(); };
  if (episode.has_fork()) {
    context.from = snapshots_.held().Find(episode.fork().snapshot_id());
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
  const std::shared_ptr<LiveEpisode> live = snapshots_.Enter(episode);
  context.live = live.get();
  EpisodeReport report = RunEpisode(recipe, episode, context);
  snapshots_.Leave(episode);
  if (report.fork == nullptr) return report;
  const absl::Status held = snapshots_.held().Add(live->fork_id(), episode.ref().group_id(), report.fork);
  if (held.ok()) return report;
  report.fork = nullptr;
  report.cause = "sandbox";
  report.detail = std::string(held.message());
  return report;
}

void Runner::Settle(int recipe, const v1::EpisodeOpenResponse& episode, EpisodeReport& report) {
  const absl::Status reported = reporter_.Report(episode, report);
  if (!reported.ok()) {
    INGOT_LOG(error, "the gateway did not accept the end of episode {}: {}", episode.episode_id(), reported.ToString());
  }
  base::MutexLock lock(mu_);
  changed_.SignalAll();
  if (recipe >= 0) mix_.Ended(recipe);
  if (!reported.ok()) tally_.CountUnreported();
  tally_.CountEnded(NameOf(recipe), report);
}

bool Runner::MayBeOfSetup(const EpisodeReport& report) const {
  if (report.cause.empty()) return false;
  base::MutexLock lock(mu_);
  return IsOfSetup(report.cause) || tally_.stats().finished == 0;
}

bool Runner::MayKeepFolder() {
  base::MutexLock lock(mu_);
  if (kept_folders_ >= options_.keep_failed_max) return false;
  ++kept_folders_;
  return true;
}

}  // namespace ingot::agents
