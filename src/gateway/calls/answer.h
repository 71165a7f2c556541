// One request being answered, from its body to its last event.
//
//   kQueued --worker--> kPreparing --its calls are started--> kRunning --the last of them is over--> kDone
//      |                    |  parse, find the episode, plan the prompt, reject                        ^
//      `-- Abort, Reject ---'-------------------------------------------------------------------------'
//
// An answer makes a ChatCall per choice and words their events with its dialect's Renderer. It fails as a whole: when
// one call fails, the others are aborted and recorded. Thread safe. The client's connection owns it, and so does the
// gateway until kDone. The gateway outlives it.
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
  // Functions of the gateway.
  struct Hooks {
    // `find`: the caller's episode, called before the body is read; null = `open` opens a served session once the
    // request is read, and may block.
    std::function<absl::StatusOr<std::shared_ptr<Episode>>()> find;
    std::function<absl::StatusOr<std::shared_ptr<Episode>>(const GatewayRequest&)> open;
    // Reserves places for this many calls in addition to the first. RESOURCE_EXHAUSTED: there are too few.
    std::function<absl::Status(int)> reserve;
    // The error that an answer of the episode should end with: this error, or a replacement. Not called for unreadable
    // requests. May block. `episode`: null = none was found.
    std::function<absl::Status(const std::shared_ptr<Episode>& episode, absl::Status why)> confirm;
    // Called once, when the answer is over, with the number of reserved calls.
    std::function<void(const std::shared_ptr<Answer>&, int)> on_done;
    // Called from any thread whenever TakeOutput may return something new, possibly before StartAnswer returns. It must
    // not block or call the gateway.
    std::function<void()> wake;
  };
  Answer(Core& core, const Dialect& dialect, RawRequest raw);

  struct Output {
    std::vector<WireEvent> events;  // of a stream; or one event with the reply
    bool stream = false;            // the request asked for a stream; valid once there is an event
    Framing framing;                // of an HTTP stream; valid once there is an event
    bool done = false;
    absl::Status status;  // if done: why no more events come
    std::string trailer;  // if done: the end of an HTTP stream (Renderer::Trailer)
  };
  // The output since the last call. Each call confirms that the previous output was sent. Never blocks.
  Output TakeOutput();

  // Stops sampling and records the ids so far. `why`: CANCELLED if the client is gone, or the limit that was exceeded.
  // Does not wait.
  void Abort(absl::Status why);

  // For the gateway:
  void SetHooks(Hooks hooks) { hooks_ = std::move(hooks); }  // before all other functions
  // The answer passed the gate of this episode. False: the answer is already over.
  bool Enter(std::shared_ptr<Episode> episode);
  std::shared_ptr<Episode> entered() const {  // null = it passed no gate
    base::MutexLock lock(mu_);
    return entered_;
  }
  void Prepare();                 // on a worker
  void Reject(absl::Status why);  // instead of Prepare
  std::chrono::nanoseconds arrival() const { return arrival_; }
  const Dialect& dialect() const { return dialect_; }
  const std::string& id() const { return id_; }  // the id of its first call
  absl::Status outcome() const {                 // once it is over
    base::MutexLock lock(mu_);
    return failure_;
  }

 private:
  enum class Phase { kQueued, kPreparing, kRunning, kDone };

  // Prepare's steps.
  absl::Status Run();
  absl::StatusOr<GatewayRequest> Read();
  absl::Status MakeCalls(const std::shared_ptr<Episode>& episode);
  absl::StatusOr<std::vector<std::shared_ptr<const PromptPlan>>> PlanPrompts(Episode& episode,
                                                                             const GatewayRequest& request);
  // The prompt of the conversation, or of one of the raw prompts. Errors are the client's fault. A text that certainly
  // exceeds `context` is not encoded. `episode` null = no call is continued.
  absl::StatusOr<PromptPlan> PlanPrompt(Episode* episode, const GatewayRequest& request, int raw_prompt,
                                        const absl::StatusOr<int64_t>& context) const;
  absl::Status CountTokens(std::shared_ptr<const GatewayRequest> request);
  void OnCallDone(const absl::Status& status);
  void Finish(absl::Status status);
  bool Begin();  // false: it was aborted
  // False: the request itself is unreadable, whatever the state of its episode.
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
  std::vector<std::shared_ptr<ChatCall>> calls_ ABSL_GUARDED_BY(mu_);  // by choice
  int open_calls_ ABSL_GUARDED_BY(mu_) = 0;
  int reserved_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<Episode> entered_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Episode> episode_ ABSL_GUARDED_BY(mu_);  // null = not found yet
  bool unreadable_ ABSL_GUARDED_BY(mu_) = false;           // Read has failed
  absl::Status abort_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);    // of the first call that failed
  bool begun_ ABSL_GUARDED_BY(mu_) = false;      // TakeOutput returned an event
  bool delivered_ ABSL_GUARDED_BY(mu_) = false;  // TakeOutput returned the last event
};

}  // namespace ingot::gateway
