#include "rollout/routing/engine_set.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/mutex.h"
#include "rollout/engine/chunk_gate.h"
#include "rollout/routing/status_sum.h"

namespace ingot::rollout {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kFirstPause = std::chrono::seconds(1);
constexpr nanoseconds kLongestPause = std::chrono::seconds(16);

bool MayGoElsewhere(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || absl::IsNotFound(status);
}

std::span<const int32_t> Ids(const google::protobuf::RepeatedField<int32_t>& ids) {
  return {ids.data(), static_cast<size_t>(ids.size())};
}

}  // namespace

// State shared by the set and its requests. A request may outlive the set, and its last owner may be an engine client's
// thread, so requests never own engines.
class EngineSet::State {
 public:
  State(size_t engines, const base::Clock& clock, const RouterOptions& router)
      : clock_(clock),
        options_(router),
        pauses_(engines),
        router_(router, engines, Seed()),
        prefillers_(static_cast<size_t>(router.prefill_engines)) {}

  // Chooses the best engine that is not marked in `tried`, which may be shorter than the set. Counts one more request
  // in flight on it and one more start in progress. Returns null if no engine is left or the set is closed. Started
  // and Ended undo the counts. The set stays alive until Started.
  std::shared_ptr<Router::Sent> Send(const std::vector<bool>& tried, const PrefixKeys& prompt, uint64_t lineage) {
    base::MutexLock lock(mu_);
    if (closed_) return nullptr;
    const nanoseconds now = clock_.Now();
    SetCandidates(tried, now);
    if (candidates_.empty()) return nullptr;
    ++starting_;
    return std::make_shared<Router::Sent>(router_.Send(prompt, lineage, candidates_, now));
  }
  void Add() {
    base::MutexLock lock(mu_);
    pauses_.emplace_back();
    router_.AddEngine();
  }
  // Counts one more start in progress. Returns false if the set is closed.
  bool Begin() {
    base::MutexLock lock(mu_);
    if (!closed_) ++starting_;
    return !closed_;
  }

  // A prompt that `prefiller` computes for `engine`.
  struct Prefill {
    size_t prefiller = 0, engine = 0;
    std::vector<uint64_t> keys;  // of the prefixes that the engine does not have
  };
  using PrefillPtr = std::shared_ptr<const Prefill>;

  // Chooses the engine that computes the prompt for the request's engine, and counts it; null = that engine itself.
  // Prefilled undoes the count.
  PrefillPtr ChoosePrefiller(const Router::Sent& sent, const PrefixKeys& prompt) {
    base::MutexLock lock(mu_);
    if (sent.engine < prefillers_.size()) return nullptr;
    const std::vector<uint64_t>& keys = prompt.keys();
    size_t begin = keys.size() - std::min(keys.size(), static_cast<size_t>(sent.pending / PrefixKeys::kTokens));
    // The router predicts that the engine will have what is now prefilled for other requests.
    std::optional<size_t> same;
    for (; begin > 0; --begin) {
      const auto found = prefilling_.find({sent.engine, keys[begin - 1]});
      if (found == prefilling_.end()) break;
      same = found->second.prefiller;
    }
    if (sent.tokens - static_cast<int64_t>(begin) * PrefixKeys::kTokens < options_.prefill_min_tokens) return nullptr;
    const std::optional<size_t> prefiller = same.has_value() && MayPrefill(*same) ? same : LeastBusyPrefiller();
    if (!prefiller.has_value()) return nullptr;
    ++prefillers_[*prefiller].requests;
    std::vector<uint64_t> missing(keys.begin() + static_cast<ptrdiff_t>(begin), keys.end());
    for (const uint64_t key : missing) {
      ++prefilling_.try_emplace({sent.engine, key}, Prefilling{*prefiller, 0}).first->second.requests;
    }
    return std::make_shared<const Prefill>(Prefill{*prefiller, sent.engine, std::move(missing)});
  }
  void Prefilled(const Prefill& prefill, const absl::Status& status) {
    if (absl::IsUnavailable(status)) OnUnavailable(prefill.prefiller, status);
    base::MutexLock lock(mu_);
    for (const uint64_t key : prefill.keys) {
      const auto found = prefilling_.find({prefill.engine, key});
      if (--found->second.requests == 0) prefilling_.erase(found);
    }
    Prefiller& prefiller = prefillers_[prefill.prefiller];
    --prefiller.requests;
    ++prefill_count_;
    if (!status.ok() && !absl::IsCancelled(status)) ++failed_prefills_;
    if (status.ok()) prefiller.pause = pauses_[prefill.prefiller] = {};
    if (absl::IsDeadlineExceeded(status) && prefiller.pause.Lengthen(clock_.Now())) {
      INGOT_LOG(warn, "rollout engine {} is too slow for prefills; other engines compute their prompts for {} s: {}",
                prefill.prefiller, prefiller.pause.length / std::chrono::seconds(1), std::string(status.message()));
    }
  }
  std::chrono::milliseconds prefill_wait() const { return std::chrono::milliseconds(options_.prefill_wait_ms); }

  void Started() {
    base::MutexLock lock(mu_);
    if (--starting_ == 0) idle_.SignalAll();
  }
  void Ended(Router::Sent& sent) {
    base::MutexLock lock(mu_);
    router_.End(sent);
  }

  void OnAnswer(Router::Sent& sent, bool pinned, const v1::GenerateChunk& chunk) {
    base::MutexLock lock(mu_);
    pauses_[sent.engine] = {};
    router_.FirstToken(sent, clock_.Now());
    if (!pinned && !chunk.versions().empty()) router_.SawVersion(sent.engine, chunk.versions().rbegin()->version());
  }
  // `whole` is the prompt and the answer.
  void OnLast(const Router::Sent& sent, const PrefixKeys& whole, bool timed, const v1::GenerateChunk& chunk) {
    base::MutexLock lock(mu_);
    router_.Answered(sent, whole, chunk.cached_tokens(), timed, clock_.Now());
  }
  void OnUnavailable(size_t engine, const absl::Status& why) {
    base::MutexLock lock(mu_);
    Pause& pause = pauses_[engine];
    if (!pause.Lengthen(clock_.Now())) return;
    router_.Forget(engine);
    INGOT_LOG(warn, "rollout engine {} rejects requests; skipping it for {} s: {}", engine,
              pause.length / std::chrono::seconds(1), std::string(why.message()));
  }

  bool uses_prefixes() const { return options_.policy == RouterPolicy::kCost; }
  RouterStats stats() const {
    base::MutexLock lock(mu_);
    RouterStats stats = router_.stats();
    stats.prefills = prefill_count_;
    stats.prefills_failed = failed_prefills_;
    return stats;
  }

  // After this returns, no more requests start on an engine.
  void Close() {
    base::MutexLock lock(mu_);
    closed_ = true;
    while (starting_ > 0) idle_.Wait(mu_);
  }

 private:
  struct Pause {
    nanoseconds until{0};
    nanoseconds length{0};  // duration of the last pause; 0 = the engine has answered since then

    // Returns false if the engine is paused, because another request has already detected the cause.
    bool Lengthen(nanoseconds now) {
      if (until > now) return false;
      length = length == nanoseconds(0) ? kFirstPause : std::min(2 * length, kLongestPause);
      until = now + length;
      return true;
    }
  };
  struct Prefiller {
    int64_t requests = 0;  // in flight
    Pause pause;           // after prefills that took too long
  };
  // A prefix that is prefilled for an engine.
  struct Prefilling {
    size_t prefiller = 0;
    int64_t requests = 0;
  };

  bool MayPrefill(size_t engine) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const nanoseconds now = clock_.Now();
    return engine < pauses_.size() && pauses_[engine].until <= now && prefillers_[engine].pause.until <= now;
  }
  std::optional<size_t> LeastBusyPrefiller() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::optional<size_t> least;
    for (size_t i = 0; i < prefillers_.size(); ++i) {
      if (!MayPrefill(i)) continue;
      if (!least.has_value() || prefillers_[i].requests < prefillers_[*least].requests) least = i;
    }
    return least;
  }

  // Several gateways must not draw the same engines.
  static uint64_t Seed() {
    return static_cast<uint64_t>(base::Clock::Real().UnixNanos()) ^ static_cast<uint64_t>(getpid());
  }

  // Sets candidates_ to the engines that are not paused and not in `tried`, and do not prefill if there are others. If
  // all are paused, to those whose pause ends first.
  void SetCandidates(const std::vector<bool>& tried, nanoseconds now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    candidates_.clear();
    nanoseconds first = nanoseconds::max();
    for (size_t i = 0; i < pauses_.size(); ++i) {
      if (i < tried.size() && tried[i]) continue;
      const nanoseconds free = std::max(pauses_[i].until, now);
      if (free > first) continue;
      if (free < first) candidates_.clear();
      first = free;
      candidates_.push_back(i);
    }
    const size_t prefillers = prefillers_.size();
    if (!candidates_.empty() && candidates_.back() >= prefillers) {  // they are in ascending order
      std::erase_if(candidates_, [prefillers](size_t i) { return i < prefillers; });
    }
  }

  const base::Clock& clock_;
  const RouterOptions options_;
  mutable base::Mutex mu_;
  base::CondVar idle_;
  std::vector<Pause> pauses_ ABSL_GUARDED_BY(mu_);
  Router router_ ABSL_GUARDED_BY(mu_);
  std::vector<Prefiller> prefillers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::pair<size_t, uint64_t>, Prefilling> prefilling_ ABSL_GUARDED_BY(mu_);  // by engine and key
  int64_t prefill_count_ ABSL_GUARDED_BY(mu_) = 0, failed_prefills_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<size_t> candidates_ ABSL_GUARDED_BY(mu_);  // for the request being sent
  int starting_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

// One request. Tries one engine after another until one accepts it.
class EngineSet::Call final : public std::enable_shared_from_this<Call> {
 public:
  Call(const EngineSet& set, v1::GenerateRequest request, OnChunk on_chunk)
      : set_(set),
        state_(set.state_),
        pinned_(request.pinned_version() >= 0 || request.has_preferred_version()),
        timed_(!request.has_paused_version()),
        lineage_(request.lineage().empty() ? 0 : base::Checksum64(request.lineage()) | 1),
        request_(std::move(request)),
        sequence_(request_.pinned_version()),
        gate_(std::move(on_chunk)) {
    if (state_->uses_prefixes()) sequence_.Append(Ids(request_.prompt_ids()));
  }

  void Try() {
    std::vector<bool> tried;
    {
      base::MutexLock lock(mu_);
      tried = tried_;
    }
    const std::shared_ptr<Router::Sent> sent = state_->Send(tried, sequence_, lineage_);
    if (sent == nullptr) {
      gate_.Deliver(Rejection());
      return;
    }
    const size_t engine = sent->engine;
    auto attempt = std::make_unique<Attempt>(state_, sent);
    int number = 0;
    {
      base::MutexLock lock(mu_);
      if (tried_.size() <= engine) tried_.resize(engine + 1);
      tried_[engine] = true;
      number = ++attempts_;
      if (!stopped_) attempt.swap(current_);
    }
    const bool apart = request_.placeholders().empty() && request_.score_ids() == 0;
    const State::PrefillPtr prefill = apart ? state_->ChoosePrefiller(*sent, sequence_) : nullptr;
    prefill != nullptr ? StartPrefill(prefill, sent, number) : Start(sent, number);
    state_->Started();
    // The attempt of a caller that is gone is destroyed here, outside the lock.
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
    Attempt(std::shared_ptr<State> of, std::shared_ptr<Router::Sent> as) : state(std::move(of)), sent(std::move(as)) {}
    ~Attempt() {
      if (prefill != nullptr && prefill->Cancel()) state->Prefilled(*prefilled, absl::CancelledError());
      handle.reset();
      state->Ended(*sent);
    }
    const std::shared_ptr<State> state;
    const std::shared_ptr<Router::Sent> sent;  // guarded by the state, except for its engine
    std::shared_ptr<RemotePrefill> prefill;    // null = the engine computes the prompt
    State::PrefillPtr prefilled;
    std::unique_ptr<Request> handle;  // null until the prefill has ended
  };

  // REQUIRES: a start is in progress.
  void Start(const std::shared_ptr<Router::Sent>& sent, int number) {
    std::unique_ptr<Request> handle =
        set_.At(sent->engine)
            .Generate(request_, [self = shared_from_this(), sent, number](absl::StatusOr<v1::GenerateChunk> chunk) {
              self->OnChunk(*sent, number, std::move(chunk));
            });
    base::MutexLock lock(mu_);
    if (!stopped_ && number == attempts_ && current_ != nullptr) handle.swap(current_->handle);
    // The handle of an attempt that ended, or whose caller is gone, is destroyed after the lock.
  }

  // Same as Start, but first has another engine compute the prompt.
  void StartPrefill(const State::PrefillPtr& prefilled, const std::shared_ptr<Router::Sent>& sent, int number) {
    const auto prefill = std::make_shared<RemotePrefill>(
        [self = shared_from_this(), prefilled, sent, number](const absl::Status& status) {
          self->state_->Prefilled(*prefilled, status);
          self->StartPrefilled(sent, number);
        });
    bool wanted = false;
    {
      base::MutexLock lock(mu_);
      wanted = !stopped_ && number == attempts_;
      if (wanted) {
        current_->prefill = prefill;
        current_->prefilled = prefilled;
      }
    }
    if (!wanted) return state_->Prefilled(*prefilled, absl::CancelledError());
    timed_ = false;
    prefill->Start(set_.At(prefilled->prefiller), request_, state_->prefill_wait());
  }

  void StartPrefilled(const std::shared_ptr<Router::Sent>& sent, int number) {
    if (!state_->Begin()) return gate_.Deliver(Rejection());
    Start(sent, number);
    state_->Started();
  }

  void OnChunk(Router::Sent& sent, int number, absl::StatusOr<v1::GenerateChunk> chunk) {
    if (absl::IsUnavailable(chunk.status())) state_->OnUnavailable(sent.engine, chunk.status());
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
    if (first) request_ = v1::GenerateRequest();  // Try will not run again, and a long prompt uses memory
    if (chunk.ok()) Count(sent, first, *chunk);
    again ? Try() : gate_.Deliver(std::move(chunk));
  }

  // Tells the router only about the first and last chunks, because all requests share the state.
  void Count(Router::Sent& sent, bool first, const v1::GenerateChunk& chunk) {
    if (first) state_->OnAnswer(sent, pinned_, chunk);
    if (!state_->uses_prefixes()) return;
    sequence_.Append(Ids(chunk.token_ids()));
    if (chunk.finish() != v1::FINISH_UNSPECIFIED) state_->OnLast(sent, sequence_, timed_, chunk);
  }

  absl::Status Rejection() {
    base::MutexLock lock(mu_);
    return rejection_.ok() ? absl::UnavailableError("the rollout client is shutting down") : rejection_;
  }

  const EngineSet& set_;  // valid only between State's Send and Started
  const std::shared_ptr<State> state_;
  const bool pinned_;
  bool timed_;                   // false = it also waits for a newer version or for another engine's prefill
  const uint64_t lineage_;       // 0 = unknown
  v1::GenerateRequest request_;  // read by Try; empty once an engine has answered
  PrefixKeys sequence_;          // keys for the prompt and the answer so far; empty if the router does not use prefixes
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

EngineSet::EngineSet(std::vector<std::shared_ptr<Client>> engines, const base::Clock& clock,
                     const RouterOptions& router)
    : state_(std::make_shared<State>(engines.size(), clock, router)), engines_(std::move(engines)) {}

EngineSet::~EngineSet() { state_->Close(); }

void EngineSet::Add(std::shared_ptr<Client> engine) {
  {
    base::MutexLock lock(mu_);
    engines_.push_back(std::move(engine));
  }
  state_->Add();  // from now on, it may be chosen
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
      AddStatus(*one, *sum);
    }
  }
  if (!sum.has_value()) return error;
  return *std::move(sum);
}

std::string EngineSet::MetricsText() const {
  const RouterStats stats = state_->stats();
  return absl::StrCat(
      "# HELP ingot_router_stayed_total Calls sent to their episode's last engine.\n",
      "# TYPE ingot_router_stayed_total counter\ningot_router_stayed_total ", stats.stayed, "\n",
      "# HELP ingot_router_moved_total Calls sent to a different engine than their episode's last one.\n",
      "# TYPE ingot_router_moved_total counter\ningot_router_moved_total ", stats.moved, "\n",
      "# HELP ingot_router_prefills_total Prompts that an engine was asked to compute for another one.\n",
      "# TYPE ingot_router_prefills_total counter\ningot_router_prefills_total ", stats.prefills, "\n",
      "# HELP ingot_router_prefills_failed_total Those that failed or were not computed in time.\n",
      "# TYPE ingot_router_prefills_failed_total counter\ningot_router_prefills_failed_total ", stats.prefills_failed,
      "\n", "# HELP ingot_router_cost_error Mean relative error of the estimated time to a call's first token.\n",
      "# TYPE ingot_router_cost_error gauge\ningot_router_cost_error ", stats.cost_error(), "\n");
}

}  // namespace ingot::rollout
