#include "rollout/engine_set.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "rollout/chunk_gate.h"

namespace ingot::rollout {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kFirstPause = std::chrono::seconds(1);
constexpr nanoseconds kLongestPause = std::chrono::seconds(16);

bool MayGoElsewhere(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || absl::IsNotFound(status);
}

// Returns the time from the update's arrival to its first token.
double UntilFirstToken(const v1::SwapTimes& times) {
  return times.fetch_ms() + times.apply_ms() + times.wait_ms() + times.pause_ms() + times.first_token_ms();
}

// Returns true if `a` is from an older version than `b`, or from the same version but slower.
bool IsLater(const v1::SwapTimes& a, const v1::SwapTimes& b) {
  return a.version() != b.version() ? a.version() < b.version() : UntilFirstToken(a) > UntilFirstToken(b);
}

void AddPrefill(const v1::PrefillProgress& one, v1::PrefillProgress& sum) {
  sum.set_requests(sum.requests() + one.requests());
  sum.set_tokens(sum.tokens() + one.tokens());
  sum.set_prefilled(sum.prefilled() + one.prefilled());
  sum.set_oldest_seconds(std::max(sum.oldest_seconds(), one.oldest_seconds()));
}

void AddDrafters(const v1::EngineStatusResponse& one, v1::EngineStatusResponse& sum) {
  for (const v1::DrafterStatus& drafter : one.drafters()) {
    auto& known = *sum.mutable_drafters();
    auto at = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.name() == drafter.name(); });
    v1::DrafterStatus& total = at == known.end() ? *known.Add() : *at;
    total.set_name(drafter.name());
    total.set_drafted(total.drafted() + drafter.drafted());
    total.set_accepted(total.accepted() + drafter.accepted());
  }
}

}  // namespace

// State shared by the set and its requests. A request may outlive the set, and its last owner may be an engine client's
// thread, so requests never own engines.
class EngineSet::State {
 public:
  State(size_t engines, const base::Clock& clock) : clock_(clock), loads_(engines) {}

  // Chooses the best engine that is not marked in `tried`, which may be shorter than the set. Counts one more request
  // in flight on it and one more start in progress. Returns nullopt if no engine is left or the set is closed. Started
  // and Ended undo the counts. The set stays alive until Started.
  std::optional<size_t> PickEngine(const std::vector<bool>& tried) {
    base::MutexLock lock(mu_);
    if (closed_) return std::nullopt;
    const nanoseconds now = clock_.Now();
    // Starting with a different engine each time distributes requests among equally loaded engines.
    const size_t start = next_++ % loads_.size();
    std::optional<size_t> best;
    for (size_t i = 0; i < loads_.size(); ++i) {
      const size_t candidate = (start + i) % loads_.size();
      if (!(candidate < tried.size() && tried[candidate]) && (!best.has_value() || Better(candidate, *best, now)))
        best = candidate;
    }
    if (!best.has_value()) return std::nullopt;
    ++loads_[*best].in_flight;
    ++starting_;
    return best;
  }
  void Add() {
    base::MutexLock lock(mu_);
    loads_.emplace_back();
  }
  void Started() {
    base::MutexLock lock(mu_);
    if (--starting_ == 0) idle_.SignalAll();
  }
  void Ended(size_t engine) {
    base::MutexLock lock(mu_);
    --loads_[engine].in_flight;
  }

  void OnAnswer(size_t engine) {
    base::MutexLock lock(mu_);
    loads_[engine].aside_until = loads_[engine].pause = nanoseconds(0);
  }
  void OnUnavailable(size_t engine, const absl::Status& why) {
    base::MutexLock lock(mu_);
    Load& load = loads_[engine];
    const nanoseconds now = clock_.Now();
    if (load.aside_until > now) return;  // another request has already detected this
    load.pause = load.pause == nanoseconds(0) ? kFirstPause : std::min(2 * load.pause, kLongestPause);
    load.aside_until = now + load.pause;
    INGOT_LOG(warn, "rollout engine {} rejects requests; skipping it for {} s: {}", engine,
              load.pause / std::chrono::seconds(1), std::string(why.message()));
  }

  // After this returns, no more requests start on an engine.
  void Close() {
    base::MutexLock lock(mu_);
    closed_ = true;
    while (starting_ > 0) idle_.Wait(mu_);
  }

 private:
  struct Load {
    int in_flight = 0;
    nanoseconds aside_until{0};
    nanoseconds pause{0};  // the last pause; 0 = the engine has answered since
  };

  bool Better(size_t a, size_t b, nanoseconds now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const nanoseconds a_aside = std::max(loads_[a].aside_until, now), b_aside = std::max(loads_[b].aside_until, now);
    return a_aside != b_aside ? a_aside < b_aside : loads_[a].in_flight < loads_[b].in_flight;
  }

  const base::Clock& clock_;
  base::Mutex mu_;
  base::CondVar idle_;
  std::vector<Load> loads_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  int starting_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

// One request. Tries one engine after another until one accepts it.
class EngineSet::Call final : public std::enable_shared_from_this<Call> {
 public:
  Call(const EngineSet& set, v1::GenerateRequest request, OnChunk on_chunk)
      : set_(set), state_(set.state_), request_(std::move(request)), gate_(std::move(on_chunk)) {}

  void Try() {
    std::vector<bool> tried;
    {
      base::MutexLock lock(mu_);
      tried = tried_;
    }
    const std::optional<size_t> engine = state_->PickEngine(tried);
    if (!engine.has_value()) {
      gate_.Deliver(Rejection());
      return;
    }
    int number = 0;
    {
      base::MutexLock lock(mu_);
      if (tried_.size() <= *engine) tried_.resize(*engine + 1);
      tried_[*engine] = true;
      number = ++attempts_;
    }
    auto attempt = std::make_unique<Attempt>(state_, *engine);
    attempt->handle = set_.At(*engine).Generate(
        request_, [self = shared_from_this(), engine = *engine, number](absl::StatusOr<v1::GenerateChunk> chunk) {
          self->OnChunk(engine, number, std::move(chunk));
        });
    {
      base::MutexLock lock(mu_);
      if (!stopped_ && number == attempts_) attempt.swap(current_);
    }
    state_->Started();
    // An attempt that ended or whose caller is gone is destroyed here, outside the lock.
  }

  void Stop() {
    gate_.Close();
    std::unique_ptr<Attempt> current;
    base::MutexLock lock(mu_);
    stopped_ = true;
    current = std::move(current_);
  }

 private:
  struct Attempt {
    Attempt(std::shared_ptr<State> of, size_t on) : state(std::move(of)), engine(on) {}
    ~Attempt() {
      handle.reset();
      state->Ended(engine);
    }
    const std::shared_ptr<State> state;
    const size_t engine;
    std::unique_ptr<Request> handle;
  };

  void OnChunk(size_t engine, int number, absl::StatusOr<v1::GenerateChunk> chunk) {
    if (absl::IsUnavailable(chunk.status())) state_->OnUnavailable(engine, chunk.status());
    std::unique_ptr<Attempt> over;  // destroyed inside its own OnChunk, it does not wait
    bool again = false, first = false;
    {
      base::MutexLock lock(mu_);
      if (stopped_ || number != attempts_) return;
      again = !begun_ && !chunk.ok() && MayGoElsewhere(chunk.status());
      first = !begun_ && chunk.ok();
      begun_ = begun_ || first;
      if (again) {
        rejection_ = chunk.status();
        over = std::move(current_);
      }
    }
    if (first) {
      request_ = v1::GenerateRequest();  // Try will not run again, and a long prompt uses memory
      state_->OnAnswer(engine);          // not for every chunk, because all requests share the state
    }
    again ? Try() : gate_.Deliver(std::move(chunk));
  }

  absl::Status Rejection() {
    base::MutexLock lock(mu_);
    return rejection_.ok() ? absl::UnavailableError("the rollout client is shutting down") : rejection_;
  }

  const EngineSet& set_;  // valid only between State's PickEngine and Started
  const std::shared_ptr<State> state_;
  v1::GenerateRequest request_;  // read by Try; empty once an engine has answered
  ChunkGate gate_;
  base::Mutex mu_;
  std::vector<bool> tried_ ABSL_GUARDED_BY(mu_);
  int attempts_ ABSL_GUARDED_BY(mu_) = 0;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;    // a chunk arrived, so the request stays with its engine
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;  // the caller destroyed its handle
  absl::Status rejection_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Attempt> current_ ABSL_GUARDED_BY(mu_);
};

class EngineSet::Handle final : public Request {
 public:
  explicit Handle(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~Handle() override { call_->Stop(); }

 private:
  const std::shared_ptr<Call> call_;
};

EngineSet::EngineSet(std::vector<std::shared_ptr<Client>> engines, const base::Clock& clock)
    : state_(std::make_shared<State>(engines.size(), clock)), engines_(std::move(engines)) {}

EngineSet::~EngineSet() { state_->Close(); }

void EngineSet::Add(std::shared_ptr<Client> engine) {
  {
    base::MutexLock lock(mu_);
    engines_.push_back(std::move(engine));
  }
  state_->Add();  // it may be chosen from now on
}

Client& EngineSet::At(size_t engine) const {
  base::MutexLock lock(mu_);
  return *engines_[engine];
}

std::unique_ptr<Client::Request> EngineSet::Generate(v1::GenerateRequest request, OnChunk on_chunk) {
  auto call = std::make_shared<Call>(*this, std::move(request), std::move(on_chunk));
  auto handle = std::make_unique<Handle>(call);
  call->Try();
  return handle;
}

absl::StatusOr<v1::EngineStatusResponse> EngineSet::Status() {
  std::optional<v1::EngineStatusResponse> sum;
  absl::Status error;
  std::vector<std::shared_ptr<Client>> engines;
  {
    base::MutexLock lock(mu_);
    engines = engines_;
  }
  for (const auto& engine : engines) {
    const absl::StatusOr<v1::EngineStatusResponse> one = engine->Status();
    if (!one.ok()) {
      error = one.status();
    } else if (!sum.has_value()) {
      sum = *one;
    } else {
      if (one->version() < sum->version()) {
        sum->set_version(one->version());
        *sum->mutable_held_versions() = one->held_versions();
        *sum->mutable_held_checksums() = one->held_checksums();
        *sum->mutable_held_loaded_unix_ns() = one->held_loaded_unix_ns();
      }
      if (!one->has_first_token()) {
        sum->clear_first_token();
      } else if (sum->has_first_token() && IsLater(one->first_token(), sum->first_token())) {
        *sum->mutable_first_token() = one->first_token();
      }
      sum->set_running(sum->running() + one->running());
      sum->set_waiting(sum->waiting() + one->waiting());
      sum->set_kv_blocks_total(sum->kv_blocks_total() + one->kv_blocks_total());
      sum->set_kv_blocks_used(sum->kv_blocks_used() + one->kv_blocks_used());
      sum->set_sampled_tokens(sum->sampled_tokens() + one->sampled_tokens());
      sum->set_prompt_tokens(sum->prompt_tokens() + one->prompt_tokens());
      sum->set_cached_prompt_tokens(sum->cached_prompt_tokens() + one->cached_prompt_tokens());
      sum->set_busy_seconds(sum->busy_seconds() + one->busy_seconds());
      sum->set_alive_seconds(sum->alive_seconds() + one->alive_seconds());
      sum->set_sampling_passes(sum->sampling_passes() + one->sampling_passes());
      sum->set_paused_requests(sum->paused_requests() + one->paused_requests());
      AddDrafters(*one, *sum);
      sum->mutable_servers()->MergeFrom(one->servers());
      if (one->has_prefill()) AddPrefill(one->prefill(), *sum->mutable_prefill());
    }
  }
  if (!sum.has_value()) return error;
  return *std::move(sum);
}

}  // namespace ingot::rollout
