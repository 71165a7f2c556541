#include "rollout/simulation/engines.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "rollout/routing/router.h"
#include "rollout/simulation/simulated_cache.h"

namespace ingot::rollout {
namespace {

using std::chrono::nanoseconds;

constexpr double kDecodeBatch = 32;  // number of requests that double a step's time
constexpr double kDone = 1e-9;       // tokens that an ended answer may have left, because of rounding

nanoseconds Time(double seconds) { return nanoseconds(static_cast<int64_t>(seconds * 1e9)); }

struct Session {
  const TraceSession* trace = nullptr;
  size_t next = 0;  // index of the next call
  PrefixKeys sequence;
};

struct Call {
  Session* session = nullptr;
  const TraceCall* trace = nullptr;
  Router::Sent sent;
  double arrived = 0;
  int64_t cached = 0;
  int64_t version = 0;  // when prefill started
  double left = 0;      // remaining tokens in the answer
};
using CallPtr = std::unique_ptr<Call>;

class Simulation {
 public:
  Simulation(const Trace& trace, const EngineSimulationOptions& options)
      : options_(options), router_(options.router, static_cast<size_t>(options.engines)), sessions_(trace.size()) {
    for (int i = 0; i < options.engines; ++i) {
      engines_.emplace_back(options.cache_tokens, i + 1 == options.engines ? options.last_engine_speed : 1);
    }
    candidates_.resize(engines_.size());
    std::iota(candidates_.begin(), candidates_.end(), size_t{0});
    for (size_t i = 0; i < trace.size(); ++i) {
      sessions_[i].trace = &trace[i];
      trace[i].episode ? waiting_.push_back(i) : Schedule(trace[i].start_seconds, Event::kArrival, i);
    }
    for (int i = 0; i < options.episodes; ++i) StartEpisode();
  }

  EngineSimulationReport Run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      Handle(event);
    }
    report_.seconds = now_;
    report_.moved = router_.stats().moved;
    report_.stayed = router_.stats().stayed;
    report_.cost_error = router_.stats().cost_error();
    report_.ttft_p50 = Percentile(0.5);
    report_.ttft_p99 = Percentile(0.99);
    return report_;
  }

 private:
  struct Event {
    enum Kind { kArrival, kPrefilled, kDecoded };
    double at;
    int64_t order;  // order of events at the same time
    Kind kind;
    size_t index;  // index of the session or the engine
    int64_t plan;  // kDecoded: Engine::plan

    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Engine {
    Engine(int64_t cache_tokens, double of_speed) : speed(of_speed), cache(cache_tokens) {}
    double speed;
    SimulatedCache cache;
    int64_t version = 0;
    std::deque<CallPtr> queue;  // the first one is being prefilled
    std::vector<CallPtr> decoding;
    double decoded_until = 0;
    int64_t plan = 0;  // a change to `decoding` makes a new plan
  };

  void Schedule(double at, Event::Kind kind, size_t index, int64_t plan = 0) {
    events_.push({at, ++order_, kind, index, plan});
  }

  void Handle(const Event& event) {
    if (event.kind == Event::kArrival) return Arrive(sessions_[event.index]);
    Engine& engine = engines_[event.index];
    if (event.kind == Event::kPrefilled) return Prefilled(engine, event.index);
    if (event.plan == engine.plan) Decoded(engine, event.index);
  }

  void StartEpisode() {
    if (waiting_.empty()) return;
    const size_t session = waiting_.front();
    waiting_.pop_front();
    Schedule(now_ + sessions_[session].trace->calls.front().delay_seconds, Event::kArrival, session);
  }

  void Append(Session& session, const TracePiece& piece) {
    ids_.clear();
    AppendIds(piece, ids_);
    session.sequence.Append(ids_);
  }

  void Arrive(Session& session) {
    auto call = std::make_unique<Call>();
    call->session = &session;
    call->trace = &session.trace->calls[session.next++];
    call->arrived = now_;
    for (const TracePiece& piece : call->trace->added) Append(session, piece);
    const auto lineage = static_cast<uint64_t>(&session - sessions_.data()) + 1;
    call->sent = router_.Send(session.sequence, lineage, candidates_, Time(now_));
    const size_t index = call->sent.engine;
    Engine& engine = engines_[index];
    engine.queue.push_back(std::move(call));
    if (engine.queue.size() == 1) StartPrefill(engine, index);
  }

  void UpdateVersion(Engine& engine) const {
    if (options_.version_seconds == 0) return;
    const auto version = static_cast<int64_t>(now_ / options_.version_seconds);
    if (version != engine.version) engine.cache.Clear();
    engine.version = version;
  }

  void StartPrefill(Engine& engine, size_t index) {
    UpdateVersion(engine);
    Call& call = *engine.queue.front();
    const int64_t tokens = call.session->sequence.tokens();
    call.cached = engine.cache.Match(call.session->sequence);
    call.version = engine.version;
    if (call.arrived >= options_.warmup_seconds) {
      ++report_.calls;
      report_.prompt_tokens += tokens;
      report_.computed_tokens += tokens - call.cached;
    }
    const double took = static_cast<double>(tokens - call.cached) / (options_.prefill_rate * engine.speed);
    Schedule(now_ + took + options_.decode_seconds / engine.speed, Event::kPrefilled, index);
  }

  // Adds to the cache what one version has computed.
  void AddToCache(Engine& engine, const Call& call) {
    UpdateVersion(engine);
    if (engine.version == call.version) engine.cache.Add(call.session->sequence);
  }

  void Prefilled(Engine& engine, size_t index) {
    CallPtr call = std::move(engine.queue.front());
    engine.queue.pop_front();
    AddToCache(engine, *call);
    if (call->arrived >= options_.warmup_seconds) ttft_.push_back(now_ - call->arrived);
    router_.FirstToken(call->sent, Time(now_));
    router_.SawVersion(index, engine.version);
    if (!engine.queue.empty()) StartPrefill(engine, index);
    Decode(engine);
    call->left = static_cast<double>(call->trace->answer.tokens);
    engine.decoding.push_back(std::move(call));
    PlanDecoding(engine, index);
  }

  double StepSeconds(const Engine& engine) const {
    return options_.decode_seconds * (1 + static_cast<double>(engine.decoding.size()) / kDecodeBatch) / engine.speed;
  }

  // Decodes until now.
  void Decode(Engine& engine) {
    const double tokens = (now_ - std::exchange(engine.decoded_until, now_)) / StepSeconds(engine);
    for (const CallPtr& call : engine.decoding) call->left -= tokens;
  }

  void PlanDecoding(Engine& engine, size_t index) {
    ++engine.plan;
    if (engine.decoding.empty()) return;
    double least = INFINITY;
    for (const CallPtr& call : engine.decoding) least = std::min(least, call->left);
    Schedule(now_ + std::max(least, 0.0) * StepSeconds(engine), Event::kDecoded, index, engine.plan);
  }

  void Decoded(Engine& engine, size_t index) {
    Decode(engine);
    for (size_t i = engine.decoding.size(); i-- > 0;) {
      if (engine.decoding[i]->left > kDone) continue;
      const CallPtr call = std::move(engine.decoding[i]);
      engine.decoding.erase(engine.decoding.begin() + static_cast<ptrdiff_t>(i));
      End(engine, *call);
    }
    PlanDecoding(engine, index);
  }

  void End(Engine& engine, Call& call) {
    Session& session = *call.session;
    Append(session, call.trace->answer);
    AddToCache(engine, call);
    router_.Answered(call.sent, session.sequence, call.cached, /*timed=*/true, Time(now_));
    router_.End(call.sent);
    if (session.next < session.trace->calls.size()) {
      Schedule(now_ + session.trace->calls[session.next].delay_seconds, Event::kArrival,
               static_cast<size_t>(&session - sessions_.data()));
    } else {
      session.sequence = PrefixKeys();
      if (session.trace->episode) StartEpisode();
    }
  }

  double Percentile(double share) {
    if (ttft_.empty()) return 0;
    const auto at = static_cast<size_t>(share * static_cast<double>(ttft_.size() - 1));
    std::nth_element(ttft_.begin(), ttft_.begin() + static_cast<ptrdiff_t>(at), ttft_.end());
    return ttft_[at];
  }

  const EngineSimulationOptions options_;
  Router router_;
  std::vector<Session> sessions_;
  std::deque<size_t> waiting_;  // episodes that have not started
  std::deque<Engine> engines_;
  std::vector<size_t> candidates_;
  std::priority_queue<Event> events_;
  int64_t order_ = 0;
  double now_ = 0;
  std::vector<double> ttft_;
  std::vector<int32_t> ids_;
  EngineSimulationReport report_;
};

}  // namespace

absl::Status EngineSimulationOptions::Validate() const {
  const auto between = [](const char* name, double value, double least, double most) {
    if (value >= least && value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", value, ": it must be from ", least, " to ", static_cast<int64_t>(most)));
  };
  INGOT_RETURN_IF_ERROR(between("engines", engines, 1, 1000));
  INGOT_RETURN_IF_ERROR(between("prefill rate", prefill_rate, 1, 1e9));
  INGOT_RETURN_IF_ERROR(between("decode time", decode_seconds, 1e-6, 10));
  INGOT_RETURN_IF_ERROR(between("speed of the last engine", last_engine_speed, 0.01, 1));
  INGOT_RETURN_IF_ERROR(between("cache tokens", static_cast<double>(cache_tokens), PrefixKeys::kTokens, 1e10));
  INGOT_RETURN_IF_ERROR(between("time between versions", version_seconds, 0, 1e6));
  INGOT_RETURN_IF_ERROR(between("episodes", episodes, 1, 10'000));
  return between("warm-up", warmup_seconds, 0, 1e6);
}

absl::StatusOr<EngineSimulationReport> SimulateEngines(const Trace& trace, const EngineSimulationOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  return Simulation(trace, options).Run();
}

std::vector<std::vector<int32_t>> PromptsOf(const Trace& trace, size_t most) {
  std::vector<std::vector<int32_t>> prompts;
  for (const TraceSession& session : trace) {
    std::vector<int32_t> ids;
    for (const TraceCall& call : session.calls) {
      if (prompts.size() == most) return prompts;
      for (const TracePiece& piece : call.added) AppendIds(piece, ids);
      prompts.push_back(ids);
      AppendIds(call.answer, ids);
    }
  }
  return prompts;
}

void RoutePrompts(std::span<const std::vector<int32_t>> prompts, const EngineSimulationOptions& options) {
  Router router(options.router, static_cast<size_t>(options.engines));
  std::vector<size_t> candidates(static_cast<size_t>(options.engines));
  std::iota(candidates.begin(), candidates.end(), size_t{0});
  nanoseconds now{0};
  for (const std::vector<int32_t>& prompt : prompts) {
    now += std::chrono::milliseconds(1);
    PrefixKeys keys;
    keys.Append(prompt);
    Router::Sent sent = router.Send(keys, base::Mix64(static_cast<uint64_t>(now.count())), candidates, now);
    router.FirstToken(sent, now);
    router.End(sent);
  }
}

}  // namespace ingot::rollout
