#include "engines/external/external_engine.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/printable.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kExpiryPoll{200};

int Connections(const rollout::EngineOptions& options) { return options.max_running + options.max_waiting + 8; }

}  // namespace

absl::Status ExternalEngine::ShuttingDown() { return absl::UnavailableError("the rollout engine is shutting down"); }

absl::StatusOr<std::unique_ptr<ExternalEngine>> ExternalEngine::Create(const rollout::EngineOptions& options,
                                                                       const ExternalOptions& external, Parts parts) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (parts.model.context_length < 2 || parts.model.vocab_size < 1) {
    return absl::InvalidArgumentError("the external engine needs the model's vocabulary and context length");
  }
  std::vector<std::string> urls = external.workers;
  if (!external.url.empty()) urls.push_back(external.url);
  std::vector<base::Fd> claims;
  for (const std::string& url : urls) {
    INGOT_ASSIGN_OR_RETURN(claims.emplace_back(), ClaimServer(external.exchange, url));
  }
  std::unique_ptr<ExternalEngine> engine(new ExternalEngine(options, external, std::move(parts)));
  engine->claims_ = std::move(claims);
  engine->keeper_.Post([raw = engine.get()] { raw->Tick(); });
  engine->expiry_ = engine->deadlines_.PostEvery(kExpiryPoll, [raw = engine.get()] { raw->ExpireWaiting(); });
  engine->tick_ =
      engine->keeper_.PostEvery(base::FromSeconds(external.idle_health_s), [raw = engine.get()] { raw->Tick(); });
  return engine;
}

ExternalEngine::ExternalEngine(const rollout::EngineOptions& options, const ExternalOptions& external, Parts parts)
    : options_(options),
      external_(external),
      api_(std::move(parts.api)),
      model_(std::move(parts.model)),
      tokenizer_(std::move(parts.tokenizer)),
      grammars_(tokenizer_),
      command_words_(std::move(parts.command_words)),
      key_(std::move(parts.key)),
      log_path_(std::move(parts.log_path)),
      clock_(*parts.clock),
      started_(clock_.Now()),
      codec_{.max_bytes = parts.max_weight_bytes,
             .threads = std::max(options.threads, 1),
             .buffers = std::make_shared<weights::BufferPool>()},
      link_(std::make_shared<Link>(this)),
      calls_engine_(CallsEngine()),
      adapters_only_(parts.adapters),
      base_label_(absl::StrCat("base-", ::getpid(), "-", started_.count())),
      workers_(*api_, key_, external_.url, external_.workers),
      control_(workers_.single().control),
      exchange_(std::move(parts.exchange)),
      reference_(std::move(parts.reference)),
      start_model_(std::move(parts.start_model)),
      server_since_(started_),
      has_start_model_(start_model_ != nullptr),
      streams_(std::make_unique<http::Streams>(Connections(options))),
      keeper_({.name = "engine"}, clock_),
      deadlines_({.name = "deadlines"}, clock_) {
  base::MutexLock lock(update_mu_);
  if (external_.verify && reference_ != nullptr) {
    verifier_.emplace(*reference_, model_, external_.verify_bound);
  }
}

ExternalEngine::~ExternalEngine() {
  {
    base::MutexLock lock(link_->mu);
    link_->engine = nullptr;
  }
  Shutdown();
}

void ExternalEngine::Shutdown() {
  {
    base::MutexLock lock(mu_);
    if (std::exchange(stopping_, true)) return;
    sending_ = false;
    changed_.SignalAll();
  }
  workers_.Stop();
  tick_.Cancel();
  expiry_.Cancel();
  EndAll(ShuttingDown());
  keeper_.Shutdown();
  deadlines_.Shutdown();
  process_.reset();
  base::MutexLock lock(mu_);
  while (!running_.empty()) changed_.Wait(mu_);  // the streams' thread delivers their errors
}

absl::Status ExternalEngine::fault() const {
  base::MutexLock lock(mu_);
  return fault_;
}

absl::Status ExternalEngine::SetAside(const std::string& why) {
  {
    base::MutexLock lock(mu_);
    if (stopping_) return ShuttingDown();
    if (!aside_.ok()) return absl::OkStatus();
    aside_ = absl::UnavailableError(
        absl::StrCat(workers_.name(), " is set aside until it is restarted: ", base::Shown(why)));
    aside_wait_.emplace(std::string(aside_.message()));
    sending_ = false;
  }
  INGOT_LOG(error, "rollout: {} is set aside until it is restarted: {}", workers_.name(), why);
  EndAll(absl::UnavailableError(absl::StrCat("the rollout server is set aside: ", base::Shown(why))));
  return absl::OkStatus();
}

}  // namespace ingot::engines
