// Produces the answer to one request, from parsing the body to sending the last event.
//
//   kQueued --worker--> kPreparing --calls started--> kRunning --last call done--> kDone
//      |                    |  parse, find the episode, plan the prompt, reject      ^
//      `-- Abort, Reject ---'--------------------------------------------------------'
//
// An answer makes one ChatCall per choice and renders their events with its dialect's Renderer. It fails as a whole: if
// one call fails, the others are aborted and recorded. Thread safe. Shared by the client's connection and, until kDone,
// by the gateway. The gateway must outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/api/api_error.h"
#include "gateway/api/dialect.h"
#include "gateway/api/request.h"
#include "gateway/calls/chat_call.h"
#include "gateway/core.h"
#include "gateway/episodes/episode.h"

namespace ingot::gateway {

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  // Callbacks into the gateway.
  struct Hooks {
    // `find` returns the caller's episode and is called before the body is read. If it returns null, `open` opens a
    // served session once the request is parsed. `open` may block.
    std::function<absl::StatusOr<std::shared_ptr<Episode>>()> find;
    std::function<absl::StatusOr<std::shared_ptr<Episode>>(const GatewayRequest&)> open;
    // Reserves places for this many additional calls. Returns RESOURCE_EXHAUSTED if there are too few places.
    std::function<absl::Status(int)> reserve;
    // Returns the error with which an answer in this episode should end: `why` or a replacement. `episode` is null if
    // none was found. Not called if the request is unreadable. May block.
    std::function<absl::Status(const std::shared_ptr<Episode>& episode, absl::Status why)> confirm;
    // Called once when the answer is done, with the number of calls reserved in addition to the first.
    std::function<void(const std::shared_ptr<Answer>&, int)> on_done;
    // Called on any thread when TakeOutput may have new output, possibly before StartAnswer returns. Must not block or
    // call the gateway.
    std::function<void()> wake;
  };
  Answer(Core& core, const Dialect& dialect, RawRequest raw);

  struct Output {
    std::vector<WireEvent> events;  // the stream's events, or one event that contains the full reply
    bool stream = false;            // the client requested a stream; valid once there is an event
    Framing framing;                // HTTP stream framing; valid once there is an event
    bool done = false;
    absl::Status status;  // if done: why the output ended
    std::string trailer;  // if done: the end of an HTTP stream (Renderer::Trailer)
  };
  // Returns the output since the last call. Each call confirms that the previous output was sent. Never blocks.
  Output TakeOutput();

  // Stops sampling and records the ids sampled so far. `why` is CANCELLED if the client disconnected, or else the error
  // for the exceeded limit. Does not block.
  void Abort(absl::Status why);

  // The following functions are for the gateway.
  void SetHooks(Hooks hooks) { hooks_ = std::move(hooks); }  // must be called first
  // Called when the answer passes the episode gate. Returns false if the answer is already done.
  bool Enter(std::shared_ptr<Episode> episode);
  std::shared_ptr<Episode> entered() const {  // null = has not passed the gate
    base::MutexLock lock(mu_);
    return entered_;
  }
  void Prepare();                 // called on a worker
  void Reject(absl::Status why);  // called instead of Prepare
  std::chrono::nanoseconds arrival() const { return arrival_; }
  const Dialect& dialect() const { return dialect_; }
  const std::string& id() const { return id_; }  // the first call's id
  absl::Status outcome() const {                 // valid once the answer is done
    base::MutexLock lock(mu_);
    return failure_;
  }

 private:
  enum class Phase { kQueued, kPreparing, kRunning, kDone };

  // Steps of Prepare.
  absl::Status Run();
  absl::StatusOr<GatewayRequest> Read();
  absl::Status MakeCalls(const std::shared_ptr<Episode>& episode);
  absl::StatusOr<std::vector<std::shared_ptr<const PromptPlan>>> PlanPrompts(Episode& episode,
                                                                             const GatewayRequest& request);
  // Plans the prompt for the conversation or for one of the raw prompts. Errors are the client's fault. Text that is
  // certain to exceed `context` is not encoded. If `episode` is null, the prompt does not continue a call.
  absl::StatusOr<PromptPlan> PlanPrompt(Episode* episode, const GatewayRequest& request, int raw_prompt,
                                        const absl::StatusOr<int64_t>& context) const;
  absl::Status CountTokens(std::shared_ptr<const GatewayRequest> request);
  void OnCallDone(const absl::Status& status);
  void Finish(absl::Status status);
  bool Begin();  // false = the answer was aborted
  // Returns false if the request itself is unreadable, regardless of the episode's state.
  bool MayDependOnEpisode() const {
    base::MutexLock lock(mu_);
    return !unreadable_;
  }

  Core& core_;
  const Dialect& dialect_;
  const std::string id_;
  const std::chrono::nanoseconds arrival_;
  const int64_t arrival_unix_ns_;
  Hooks hooks_;
  RawRequest raw_;

  mutable base::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kQueued;
  std::shared_ptr<const GatewayRequest> request_ ABSL_GUARDED_BY(mu_);  // null = not parsed yet
  std::unique_ptr<Renderer> renderer_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<ChatCall>> calls_ ABSL_GUARDED_BY(mu_);  // indexed by choice
  int open_calls_ ABSL_GUARDED_BY(mu_) = 0;
  int reserved_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<Episode> entered_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Episode> episode_ ABSL_GUARDED_BY(mu_);  // null = not found yet
  bool unreadable_ ABSL_GUARDED_BY(mu_) = false;           // Read failed
  absl::Status abort_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);    // error of the first call that failed
  bool begun_ ABSL_GUARDED_BY(mu_) = false;      // TakeOutput has returned an event
  bool delivered_ ABSL_GUARDED_BY(mu_) = false;  // TakeOutput has returned the last event
};

}  // namespace ingot::gateway
