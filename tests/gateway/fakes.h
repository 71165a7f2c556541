// What a gateway stands on, scripted: an engine that answers what a test says, a pool and an admission in memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/json.h"
#include "base/mutex.h"
#include "datapool/client.h"
#include "gateway/admission.h"
#include "gateway/api_error.h"
#include "gateway/gateway.h"
#include "rollout/client.h"
#include "tree/segment_key.h"

namespace ingot::gateway {

inline std::shared_ptr<const text::Tokenizer> TestTokenizer() {
  return text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>"});
}
inline std::shared_ptr<const text::ChatFormat> TestFormat() {
  return text::MakeChatFormat("hermes", TestTokenizer()).value();
}

// What the engine samples for one request.
struct Script {
  std::string text;               // encoded with special tokens recognised
  std::vector<int32_t> ids = {};  // instead of text
  bool end_of_turn = true;        // <|im_end|> follows
  int chunk = 3;                  // ids per chunk
  v1::FinishReason finish = v1::FINISH_STOP;
  std::string stop_string;
  absl::Status error;         // instead of the final chunk
  bool hold = false;          // everything but the final chunk: Release sends it
  bool bad_logprobs = false;  // the second chunk lacks a log-prob
};

// Answers from a thread per request, or, with `inline_chunks`, from inside Generate. Log-probs are -(1 + id % 7) / 8;
// the version changes after every 4 ids. Honours the rule that a destroyed request hears nothing more.
class ScriptedEngine final : public rollout::Client {
 public:
  using Author = std::function<Script(const v1::GenerateRequest&)>;
  explicit ScriptedEngine(Author author) : author_(std::move(author)) {}
  ~ScriptedEngine() override {
    Release();
    for (std::thread& thread : threads_) thread.join();
  }

  std::unique_ptr<Request> Generate(const v1::GenerateRequest& request, OnChunk on_chunk) override {
    auto state = std::make_shared<State>(std::move(on_chunk));
    Script script = author_(request);
    {
      base::MutexLock lock(mu_);
      requests_.push_back(request);
      changed_.SignalAll();
    }
    if (inline_chunks) {
      Play(script, *state);
    } else if (hold_without_thread) {
      bool released = false;  // whoever waited for this request may have been faster
      {
        base::MutexLock lock(mu_);
        released = released_;
        if (!released) held_states_.push_back(state);
      }
      if (released) Play(script, *state);
    } else {
      base::MutexLock lock(mu_);
      threads_.emplace_back([this, script, state] { Play(script, *state); });
    }
    return std::make_unique<Handle>(state, aborted_);
  }

  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    v1::EngineStatusResponse status;
    status.set_context_length(context_length);
    return status;
  }

  // Forgets the requests that came, so that a long run stays small.
  void Forget() {
    base::MutexLock lock(mu_);
    requests_.clear();
  }
  std::vector<v1::GenerateRequest> requests() const {
    base::MutexLock lock(mu_);
    return requests_;
  }
  // Blocks until `count` requests came.
  void WaitForRequests(size_t count) {
    base::MutexLock lock(mu_);
    while (requests_.size() < count) changed_.Wait(mu_);
  }
  // Blocks until a held request has sent all but its last chunk.
  void WaitForHeld(int count) {
    base::MutexLock lock(mu_);
    while (held_ < count) changed_.Wait(mu_);
  }
  void Release() {
    std::vector<std::shared_ptr<State>> held;
    {
      base::MutexLock lock(mu_);
      released_ = true;
      held.swap(held_states_);
      changed_.SignalAll();
    }
    for (const std::shared_ptr<State>& state : held) {
      v1::GenerateChunk last;
      last.set_finish(v1::FINISH_STOP);
      state->Send(std::move(last), true);
    }
  }
  int aborted() const { return *aborted_; }

  std::shared_ptr<const text::Tokenizer> tokenizer = TestTokenizer();
  bool inline_chunks = false;
  bool hold_without_thread = false;  // every request waits for Release, and gets no token
  int context_length = 100000;

 private:
  struct State {
    explicit State(OnChunk callback) : on_chunk(std::move(callback)) {}
    base::Mutex mu;
    OnChunk on_chunk ABSL_GUARDED_BY(mu);
    bool finished ABSL_GUARDED_BY(mu) = false;
    bool Send(absl::StatusOr<v1::GenerateChunk> chunk, bool last) {
      base::MutexLock lock(mu);
      if (!on_chunk) return false;
      finished = last;
      on_chunk(std::move(chunk));
      return true;
    }
  };
  class Handle final : public Request {
   public:
    Handle(std::shared_ptr<State> state, std::shared_ptr<std::atomic<int>> aborted)
        : state_(std::move(state)), aborted_(std::move(aborted)) {}
    ~Handle() override {
      base::MutexLock lock(state_->mu);
      if (!state_->finished) ++*aborted_;
      state_->on_chunk = nullptr;
    }

   private:
    std::shared_ptr<State> state_;
    std::shared_ptr<std::atomic<int>> aborted_;
  };

  void Play(const Script& script, State& state) {
    std::vector<int32_t> ids = script.ids.empty() ? tokenizer->Encode(script.text, true) : script.ids;
    if (script.end_of_turn) ids.push_back(*tokenizer->SpecialId("<|im_end|>"));
    size_t at = 0;
    while (at < ids.size()) {
      v1::GenerateChunk chunk;
      for (int i = 0; i < script.chunk && at < ids.size(); ++i, ++at) {
        chunk.add_token_ids(ids[at]);
        chunk.add_logprobs(-(1 + ids[at] % 7) / 8.0f);
        v1::TopLogprobs* top = chunk.add_top_logprobs();
        top->add_entries()->set_token_id(ids[at]);
        v1::VersionRun* run = chunk.add_versions();
        run->set_version(at / 4);
        run->set_count(1);
      }
      if (script.bad_logprobs && at > static_cast<size_t>(script.chunk)) chunk.mutable_logprobs()->RemoveLast();
      if (!state.Send(std::move(chunk), false)) return;
    }
    if (script.hold) {
      base::MutexLock lock(mu_);
      ++held_;
      changed_.SignalAll();
      while (!released_) changed_.Wait(mu_);
    }
    if (!script.error.ok()) {
      state.Send(Unshared(script.error), true);
      return;
    }
    v1::GenerateChunk last;
    last.set_finish(script.finish);
    last.set_stop_string(script.stop_string);
    last.set_cached_tokens(2);
    state.Send(std::move(last), true);
  }

  const Author author_;
  const std::shared_ptr<std::atomic<int>> aborted_ = std::make_shared<std::atomic<int>>(0);
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<State>> held_states_ ABSL_GUARDED_BY(mu_);
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
};

// Checks what a real pool checks: every segment a call names is stored or comes with it.
class MemoryPool final : public datapool::Client {
 public:
  absl::Status OpenEpisode(const v1::OpenEpisodeRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_open.ok()) return Unshared(fail_open);
    episodes_[request.episode().episode_id()] = request.episode();
    return absl::OkStatus();
  }
  absl::Status AppendCall(const v1::AppendCallRequest& request) override {
    base::MutexLock lock(mu_);
    while (append_gate_) changed_.Wait(mu_);
    if (!fail_append.ok()) return Unshared(fail_append);
    const auto episode = episodes_.find(request.call().episode_id());
    if (episode == episodes_.end()) return absl::NotFoundError("no such episode");
    if (episode->second.state() != v1::EPISODE_OPEN) return absl::FailedPreconditionError("the episode has ended");
    for (const v1::Segment& segment : request.segments()) segments_[tree::SegmentKey(segment)] = segment;
    for (const auto* keys : {&request.call().context_keys(), &request.call().sampled_keys()}) {
      for (const std::string& key : *keys) {
        if (!segments_.contains(key)) return absl::FailedPreconditionError("a named segment is not stored");
      }
    }
    calls_.push_back(request.call());
    return absl::OkStatus();
  }
  absl::Status RewardEpisode(const v1::RewardEpisodeRequest& request) override {
    base::MutexLock lock(mu_);
    ++rewards_waiting_;
    changed_.SignalAll();
    while (reward_gate_) changed_.Wait(mu_);
    --rewards_waiting_;
    if (!fail_reward_.ok()) return Unshared(fail_reward_);
    v1::Episode& episode = episodes_.at(request.episode_id());
    if (episode.state() != v1::EPISODE_OPEN) return absl::FailedPreconditionError("the episode has ended");
    for (const auto& [call, reward] : request.call_rewards()) {
      const bool held = std::any_of(calls_.begin(), calls_.end(), [&](const v1::Call& one) {
        return one.call_id() == call && one.episode_id() == request.episode_id();
      });
      if (!held) return absl::NotFoundError("the episode does not hold the call");
      (*episode.mutable_call_rewards())[call] = reward;
    }
    if (request.has_reward()) episode.set_reward(request.reward());
    for (const auto& [name, value] : request.signals()) (*episode.mutable_signals())[name] = value;
    return absl::OkStatus();
  }
  absl::Status EndEpisode(const v1::EndEpisodeRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_end.ok()) return Unshared(fail_end);
    v1::Episode& episode = episodes_[request.episode_id()];
    episode.set_state(request.state());
    episode.set_reward(request.reward());
    *episode.mutable_signals() = request.signals();
    *episode.mutable_call_rewards() = request.call_rewards();
    episode.set_detail(request.detail());
    ++ends;
    return absl::OkStatus();
  }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    base::MutexLock lock(mu_);
    v1::EpisodeTree tree;
    const auto found = episodes_.find(request.episode_id());
    if (found == episodes_.end()) return absl::NotFoundError("no such episode");
    *tree.mutable_episode() = found->second;
    for (const v1::Call& call : calls_) {
      if (call.episode_id() != request.episode_id()) continue;
      *tree.add_calls() = call;
      for (const auto* keys : {&call.context_keys(), &call.sampled_keys()}) {
        for (const std::string& key : *keys) (*tree.mutable_segments())[base::Hex(key)] = segments_.at(key);
      }
    }
    return tree;
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest&) override { return Unused(); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_list_.ok()) return Unshared(fail_list_);
    v1::ListEpisodesResponse all;
    for (const auto& [id, episode] : episodes_) {
      if (episode.purpose() == request.purpose()) *all.add_episodes() = episode;
    }
    return all;
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest&) override { return Unused(); }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest&) override { return Unused(); }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest&) override { return Unused(); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return Unused(); }

  std::vector<v1::Call> calls() const {
    base::MutexLock lock(mu_);
    return calls_;
  }
  v1::Episode episode(const std::string& id) const {
    base::MutexLock lock(mu_);
    return episodes_.at(id);
  }
  v1::Segment segment(const std::string& key) const {
    base::MutexLock lock(mu_);
    return segments_.at(key);
  }
  size_t segments() const {
    base::MutexLock lock(mu_);
    return segments_.size();
  }
  std::vector<int32_t> Ids(const google::protobuf::RepeatedPtrField<std::string>& keys) const {
    std::vector<int32_t> ids;
    for (const std::string& key : keys) {
      const v1::Segment stored = segment(key);
      ids.insert(ids.end(), stored.token_ids().begin(), stored.token_ids().end());
    }
    return ids;
  }
  // AppendCall waits while the gate is closed.
  void CloseGate(bool closed) {
    base::MutexLock lock(mu_);
    append_gate_ = closed;
    changed_.SignalAll();
  }
  // RewardEpisode waits while the gate is closed.
  void CloseRewardGate(bool closed) {
    base::MutexLock lock(mu_);
    reward_gate_ = closed;
    changed_.SignalAll();
  }
  void WaitForReward() {
    base::MutexLock lock(mu_);
    while (rewards_waiting_ == 0) changed_.Wait(mu_);
  }
  void FailReward(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_reward_ = std::move(status);
  }
  void FailAppend(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_append = std::move(status);
  }
  void FailEnd(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_end = std::move(status);
  }
  void FailList(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_list_ = std::move(status);
  }
  void Damage(const std::function<void(v1::Call&)>& damage) {
    base::MutexLock lock(mu_);
    for (v1::Call& call : calls_) damage(call);
  }
  void FailOpen(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_open = std::move(status);
  }

  std::atomic<int> ends{0};

 private:
  static absl::Status Unused() { return absl::UnimplementedError("the gateway does not call this"); }

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool append_gate_ ABSL_GUARDED_BY(mu_) = false;
  bool reward_gate_ ABSL_GUARDED_BY(mu_) = false;
  int rewards_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status fail_list_ ABSL_GUARDED_BY(mu_), fail_reward_ ABSL_GUARDED_BY(mu_);
  absl::Status fail_open ABSL_GUARDED_BY(mu_), fail_append ABSL_GUARDED_BY(mu_), fail_end ABSL_GUARDED_BY(mu_);
  std::map<std::string, v1::Episode> episodes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, v1::Segment> segments_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::Call> calls_ ABSL_GUARDED_BY(mu_);
};

// Gives out sample after sample of one group; up to `places` at a time.
class TestAdmission final : public Admission {
 public:
  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) override {
    base::MutexLock lock(mu_);
    ++admitted_;
    if (over_) return absl::FailedPreconditionError("the run is over");
    if (running_ >= places) return absl::ResourceExhaustedError("no place");
    ++running_;
    v1::Ticket ticket;
    ticket.mutable_ref()->set_group_id(7);
    ticket.mutable_ref()->set_sample_index(next_++);
    ticket.set_purpose(purpose);
    ticket.mutable_task()->set_task_id("t1");
    ticket.mutable_task()->set_payload_json(R"({"question":"1+1"})");
    if (!request.group().empty()) *ticket.mutable_task() = request.task();
    ticket.set_pinned_version(purpose == v1::PURPOSE_EVAL ? 5 : -1);
    ticket.set_admitted_version(3);
    return ticket;
  }
  absl::Status EpisodeEnded(const v1::EpisodeEndedRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_ended.ok()) return Unshared(fail_ended);
    --running_;
    ended_.push_back(request);
    return absl::OkStatus();
  }
  std::vector<v1::EpisodeEndedRequest> ended() const {
    base::MutexLock lock(mu_);
    return ended_;
  }
  int admitted() const {
    base::MutexLock lock(mu_);
    return admitted_;
  }
  void SetOver() {
    base::MutexLock lock(mu_);
    over_ = true;
  }
  void FailEnded(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_ended = std::move(status);
  }

  int places = 1000;
  v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN;

 private:
  mutable base::Mutex mu_;
  absl::Status fail_ended ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  int admitted_ ABSL_GUARDED_BY(mu_) = 0;  // times that it was asked
  int next_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<v1::EpisodeEndedRequest> ended_ ABSL_GUARDED_BY(mu_);
};

// A flag that other threads set.
class Flag {
 public:
  void Set() {
    base::MutexLock lock(mu_);
    set_ = true;
    changed_.SignalAll();
  }
  void WaitAndClear() {
    base::MutexLock lock(mu_);
    while (!set_) changed_.Wait(mu_);
    set_ = false;
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

// A gateway with everything below it. Change `options` and the fakes before the first use of gateway().
struct World {
  explicit World(ScriptedEngine::Author author) : engine(std::make_shared<ScriptedEngine>(std::move(author))) {
    options.worker_threads = 4;
  }
  Gateway& gateway() {
    if (gateway_ == nullptr) {
      auto made = Gateway::Create(options, {.engine = engine,
                                            .external = external,
                                            .pool = with_pool ? &pool : nullptr,
                                            .admission = with_admission ? &admission : nullptr,
                                            .tokenizer = engine->tokenizer,
                                            .format = format,
                                            .clock = &clock});
      EXPECT_TRUE(made.ok()) << made.status();
      gateway_ = *std::move(made);
    }
    return *gateway_;
  }
  // Another gateway on the same pool, as after a kill.
  absl::Status Restart() {
    gateway_.reset();
    return gateway().Recover();
  }
  v1::EpisodeOpenResponse Open() { return gateway().OpenEpisode({}).value(); }
  absl::Status End(const v1::EpisodeOpenResponse& episode, v1::EpisodeState state, const std::string& detail = "") {
    v1::EpisodeEndRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    request.set_state(state);
    request.set_detail(detail);
    return gateway().EndEpisode(request);
  }
  absl::Status Reward(const v1::EpisodeOpenResponse& episode, double reward) {
    return gateway().RewardEpisode(episode.episode_id(), episode.api_key(), reward, {});
  }

  // All of a call's events, and how it ended.
  struct Outcome {
    std::vector<base::json::value> events;
    std::vector<std::string> names;  // of the events
    std::vector<Token> tokens;       // of all of them
    absl::Status status;
    std::string trailer;
    const base::json::value& message() const { return events.at(0).at("choices").at(0).at("message"); }
  };
  Outcome Chat(const std::string& key, const base::json::value& body) { return ChatText(key, base::PrintJson(body)); }
  std::shared_ptr<Answer> StartChat(const std::string& key, const base::json::value& body, std::function<void()> wake) {
    return gateway().StartAnswer({.api_key = key, .episode = {}}, ChatDialect(),
                                 {.body = base::PrintJson(body), .headers = {}}, std::move(wake));
  }
  Outcome ChatText(const std::string& key, std::string body) { return Ask("chat.completions", key, std::move(body)); }
  Outcome Ask(const std::string& dialect, const std::string& key, std::string body, Headers headers = {},
              bool token_events = false) {
    auto flag = std::make_shared<Flag>();
    RawRequest raw{.body = std::move(body), .headers = std::move(headers), .token_events = token_events};
    const auto answer = gateway().StartAnswer({.api_key = key, .episode = {}}, *FindDialect(dialect), std::move(raw),
                                              [flag] { flag->Set(); });
    Outcome outcome;
    while (true) {
      flag->WaitAndClear();
      Answer::Output out = answer->Take();
      for (const WireEvent& event : out.events) {
        outcome.events.push_back(base::ParseJson(event.data).value());
        outcome.names.push_back(event.name);
        outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
      }
      if (!out.done) continue;
      outcome.status = out.status;
      outcome.trailer = out.trailer;
      return outcome;
    }
  }

  base::ManualClock clock;
  std::shared_ptr<ScriptedEngine> engine;
  MemoryPool pool;
  TestAdmission admission;
  GatewayOptions options;
  std::shared_ptr<const text::ChatFormat> format = TestFormat();  // of the engine's tokenizer
  std::map<std::string, std::shared_ptr<rollout::Client>> external;
  bool with_pool = true, with_admission = true;

 private:
  std::unique_ptr<Gateway> gateway_;
};

// Makers of requests.
inline base::json::object Msg(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}
inline base::json::object Body(base::json::array messages) {
  base::json::object body;
  body["model"] = "m";
  body["messages"] = std::move(messages);
  return body;
}
inline base::json::array CalculatorTools() {
  return base::json::parse(R"([{"type":"function","function":{"name":"add","parameters":
      {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}}}])")
      .as_array();
}

}  // namespace ingot::gateway
