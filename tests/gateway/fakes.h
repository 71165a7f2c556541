// A gateway with all of its dependencies in memory, and makers of requests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/jumping_clock.h"
#include "base/mutex.h"
#include "gateway/admission.h"
#include "gateway/api/api_error.h"
#include "gateway/gateway.h"
#include "gateway/memory_pool.h"
#include "gateway/scripted_engine.h"

namespace ingot::gateway {

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
    ticket.mutable_task()->set_payload_json(R"({"question":"1+1","sum":18446744073709551616})");
    if (!request.group().empty()) *ticket.mutable_task() = request.task();
    ticket.set_pinned_version(purpose == v1::PURPOSE_EVAL ? 5 : -1);
    ticket.set_admitted_version(3);
    if (change) change(request, ticket);
    return ticket;
  }
  absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_ended.ok()) return fail_ended;
    --running_;
    ended_.push_back(request);
    return absl::OkStatus();
  }
  std::vector<v1::ReportEpisodeEndRequest> ended() const {
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

  std::function<void(const v1::AdmitRequest&, v1::Ticket&)> change;  // set before the first episode; null = no change
  int places = 1000;
  v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN;

 private:
  mutable base::Mutex mu_;
  absl::Status fail_ended ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  int admitted_ ABSL_GUARDED_BY(mu_) = 0;  // number of calls
  int next_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<v1::ReportEpisodeEndRequest> ended_ ABSL_GUARDED_BY(mu_);
};

using base::testing::JumpingClock;

// A flag that other threads set.
class Flag {
 public:
  void Set() {
    base::MutexLock lock(mu_);
    set_ = true;
    changed_.SignalAll();
  }
  // False = the flag was not set within the timeout; this fails the test.
  bool WaitAndClear() {
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    base::MutexLock lock(mu_);
    while (!set_ && std::chrono::steady_clock::now() < end) changed_.WaitFor(mu_, std::chrono::milliseconds(100));
    if (!set_) ADD_FAILURE() << "what the test waits for has not come within " << kTimeout.count() << " s";
    return std::exchange(set_, false);
  }

 private:
  static constexpr std::chrono::seconds kTimeout{30};

  base::Mutex mu_;
  base::CondVar changed_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

// Advances a clock by 100 ms every millisecond, until destroyed.
class RunningClock {
 public:
  explicit RunningClock(base::ManualClock& clock)
      : thread_([&clock](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            clock.Advance(std::chrono::milliseconds(100));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}

 private:
  std::jthread thread_;
};

// A gateway with everything below it. Change `options` and the fakes before the first use of gateway().
struct World {
  explicit World(ScriptedEngine::Author author) : engine(std::make_shared<ScriptedEngine>(std::move(author))) {
    options.worker_threads = 4;
    options.engine_wait_s = 0;
  }
  Gateway& gateway() {
    if (gateway_ == nullptr) {
      auto made = Gateway::Create(options, {.engine = engine,
                                            .pins_episodes = pins_episodes,
                                            .external = external,
                                            .pool = with_pool ? &pool : nullptr,
                                            .admission = with_admission ? &admission : nullptr,
                                            .tokenizer = engine->tokenizer,
                                            .vocab_size = vocab_size,
                                            .format = format,
                                            .admin_key = admin_key,
                                            .clock = &wall});
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
    return gateway().EndEpisode(request).status();
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
    outcome.status = absl::DeadlineExceededError("the answer has not come");
    while (flag->WaitAndClear()) {
      Answer::Output out = answer->TakeOutput();
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
    answer->Abort(absl::CancelledError("the client disconnected"));
    return outcome;
  }

  base::ManualClock clock;
  JumpingClock wall{clock};
  std::shared_ptr<ScriptedEngine> engine;
  MemoryPool pool;
  TestAdmission admission;
  GatewayOptions options;
  std::string admin_key;
  std::shared_ptr<const text::ChatFormat> format = TestFormat();  // of the engine's tokenizer
  std::map<std::string, std::shared_ptr<rollout::Client>> external;
  bool with_pool = true, with_admission = true, pins_episodes = false;
  int32_t vocab_size = 0;  // the model's; 0 = the tokenizer's

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
