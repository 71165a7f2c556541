// One request being answered, from its body to its last event, in whatever dialect.
//
//   kQueued --worker--> kPreparing --its calls are started--> kRunning --the last of them is over--> kDone
//      |                    |  parse, find the episode, plan the prompt, refuse                        ^
//      `-- Abort, Refuse ---'-------------------------------------------------------------------------'
//
// It makes a ChatCall per choice and words their events with its dialect's Renderer. It fails as a whole: when one call
// does, the others are aborted; what was sampled is recorded all the same. Thread safe. Owned by who asked (a
// connection) and, until kDone, by the gateway, which outlives it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/api/dialect.h"
#include "gateway/api/request.h"
#include "gateway/chat_call.h"
#include "gateway/core.h"
#include "gateway/episode.h"

namespace ingot::gateway {

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  // What it needs of the gateway.
  struct Hooks {
    // The episode, before anything of the body is read; null: one is to be opened for a served session, which `open`
    // does once there is a request (and may block).
    std::function<absl::StatusOr<std::shared_ptr<Episode>>()> find;
    std::function<absl::StatusOr<std::shared_ptr<Episode>>()> open;
    // Room for so many calls beside the first one; RESOURCE_EXHAUSTED: there is none.
    std::function<absl::Status(int)> reserve;
    // Once, when it is over, with the calls that were reserved.
    std::function<void(const std::shared_ptr<Answer>&, int)> on_done;
    // From any thread, possibly before the starter has this object, whenever Take may have something new; must not
    // block nor call back into the gateway.
    std::function<void()> wake;
  };
  Answer(Core& core, const Dialect& dialect, RawRequest raw);

  struct Output {
    std::vector<WireEvent> events;  // of a stream; or the one reply
    bool stream = false;            // what the request asked for; known once there is an event
    bool done = false;
    absl::Status status;  // with done: why there is no (further) event
    std::string trailer;  // with done: what ends a stream over HTTP
  };
  // What is ready since the last call; taking again says that it was sent. Never blocks.
  Output Take();

  // The client is gone (CANCELLED) or a limit was passed: stops sampling and records what there is. Does not wait.
  void Abort(absl::Status why);

  // For the gateway. Before anything else:
  void SetHooks(Hooks hooks) { hooks_ = std::move(hooks); }
  void Prepare();                 // on a worker
  void Refuse(absl::Status why);  // instead of Prepare
  std::chrono::nanoseconds arrival() const { return arrival_; }
  const Dialect& dialect() const { return dialect_; }
  const std::string& id() const { return id_; }  // of its first call

 private:
  enum class Phase { kQueued, kPreparing, kRunning, kDone };

  // Prepare's steps.
  absl::Status Run();
  absl::StatusOr<GatewayRequest> Read();
  absl::Status MakeCalls(const std::shared_ptr<Episode>& episode);
  absl::StatusOr<std::vector<std::shared_ptr<const PromptPlan>>> PlanPrompts(Episode& episode,
                                                                             const GatewayRequest& request);
  // The prompt of the conversation, or of one of the raw prompts. Errors are the client's: 400. `episode` null: no call is
  // continued.
  absl::StatusOr<PromptPlan> PlanPrompt(Episode* episode, const GatewayRequest& request, int raw_prompt) const;
  absl::Status CountTokens(std::shared_ptr<const GatewayRequest> request);
  void OnCallDone(const absl::Status& status);
  void Finish(absl::Status status);
  bool Begin();  // false: it was aborted before

  Core& core_;
  const Dialect& dialect_;
  const std::string id_;
  const std::chrono::nanoseconds arrival_;
  const int64_t arrival_unix_ns_;
  Hooks hooks_;
  RawRequest raw_;

  mutable base::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kQueued;
  std::shared_ptr<const GatewayRequest> request_ ABSL_GUARDED_BY(mu_);  // null: not parsed yet
  std::unique_ptr<Renderer> renderer_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<ChatCall>> calls_ ABSL_GUARDED_BY(mu_);  // by choice
  int open_calls_ ABSL_GUARDED_BY(mu_) = 0;
  int reserved_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status abort_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);    // the first call's that failed
  bool begun_ ABSL_GUARDED_BY(mu_) = false;      // an event of the stream was taken
  bool delivered_ ABSL_GUARDED_BY(mu_) = false;  // the last event was taken
};

}  // namespace ingot::gateway
