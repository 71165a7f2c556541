// Runs one engine call, from the prompt to the record. It samples one choice of an Answer.
//
//   kWaiting --Start--> kGenerating --last chunk, or Abort--> kFinishing --worker--> kDone
//                        |  ^ Resume, if its engine is gone     ^ Abort
//                        |--+                                   |
//                        `----the slice ended----> kPaused -----'
//                        ^----writer, Continue-----'
//      `- Fail, or Abort and then Start -----------------------------------------------^
//
// The last events are sent only after the pool has acknowledged the call's record. A call that ends early is recorded
// with the ids sampled so far. At the end of a slice (FINISH_PAUSED), the ids so far are recorded as a segment, and the
// rest is requested from any engine, while the client's stream stays open. If no engine is available, the call stays in
// kGenerating and retries until gateway.engine_wait_s has passed. Thread safe. Shared by its Answer and, until kDone,
// by its episode. The gateway must outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/api/event.h"
#include "gateway/api/request.h"
#include "gateway/calls/delivery.h"
#include "gateway/core.h"
#include "gateway/episodes/episode.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/prompt_plan.h"

namespace ingot::gateway {

class ChatCall : public std::enable_shared_from_this<ChatCall> {
 public:
  // A call's constant properties.
  struct Setup {
    std::string call_id;  // 32 hexadecimal digits
    int choice = 0;       // index into the request's choices
    std::shared_ptr<const GatewayRequest> request;
    std::shared_ptr<Episode> episode;
    std::chrono::nanoseconds arrival{};
    // Called on any thread when TakeOutput may have new events. Must not block or call the gateway.
    std::function<void()> wake;
    // Called once when the call is done, before the last `wake`.
    std::function<void(const absl::Status&)> on_done;
  };
  ChatCall(Core& core, Setup setup) : core_(core), setup_(std::move(setup)) {}

  const std::string& id() const { return setup_.call_id; }

  // Registers the call with its episode (Episode::BeginCall). Must be followed by exactly one call to Start or Fail.
  absl::Status Enter();
  void Start(std::shared_ptr<const PromptPlan> plan);
  void Fail(absl::Status why);

  struct Output {
    std::vector<Event> events;
    bool done = false;
  };
  // Returns the events since the last call. Each call confirms that the previous events were sent. Never blocks.
  Output TakeOutput();

  // Stops sampling and records the ids sampled so far. Does nothing if the last chunk has already arrived. `why` is
  // CANCELLED if the client disconnected, or else the error for the exceeded limit. Does not wait.
  void Abort(absl::Status why);
  // Records a call that has finished sampling. A writer and a thread that ends the episode may both call it, but only
  // the first does the work.
  void Complete();

 private:
  enum class Phase { kWaiting, kGenerating, kPaused, kFinishing, kDone };

  v1::GenerateRequest EngineRequest() const;
  const Backend& backend() const { return core_.backends.Of(setup_.request->model); }
  int64_t PinnedVersion() const;
  // Returns true if the call keeps one version, preferably the episode's.
  bool KeepsVersion() const;
  int64_t UnixNow() const { return setup_.episode->UnixNanosAt(core_.parts.clock->Now()); }
  // Passes the request to the backend.
  void Ask(v1::GenerateRequest request);
  void OnChunk(int ask, absl::StatusOr<v1::GenerateChunk> chunk);
  void Take(const absl::StatusOr<v1::GenerateChunk>& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Phase PhaseAfterTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Prepares a request for the rest of the answer from another engine after `error`, or returns nullopt if the error
  // ends the call. Ids that the client may have received are kept. Engines verify the other ids as drafts, using their
  // own version.
  std::optional<v1::GenerateRequest> Resume(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if no engine currently accepts the call and it will retry after kAskAgain (gateway.engine_wait_s).
  bool AwaitEngine(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Requests the rest of a call that has waited for an engine. Runs on a worker.
  void AskAfterWait();
  // Returns the number of ids that the client may have received or that are in slices.
  int Kept() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the request for everything after the first `kept` ids, with the other ids as drafts.
  v1::GenerateRequest RestAfter(int kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Records a paused call's slice and requests the rest. Runs on a writer.
  void Continue();
  void StoreSlice(v1::Segment slice);

  // Schedules Complete on a writer. After this, requests that may continue the call can wait for it.
  void SubmitComplete();
  // Steps of Complete.
  absl::Status Outcome();
  std::vector<std::string> EchoedOf(const text::Message& delivered) const;
  text::Message Turn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remember(bool whole, std::vector<SegmentRef> sampled);
  v1::Call Record(v1::FinishReason finish, const std::vector<SegmentRef>& sampled);
  // Returns the request that appends the call, with all segments that the pool has not acknowledged yet.
  v1::AppendCallRequest AppendOf(const v1::Call& record, const std::vector<SegmentRef>& sampled) const;
  absl::Status Append(const v1::Call& record, const std::vector<SegmentRef>& sampled);
  // Reports the user's message, if it follows a recorded answer.
  void ReportNextMessage() const;
  void Done(const absl::Status& status);
  void Count(const absl::Status& status, bool aborted);
  void CountTokens(const absl::Status& status);

  Core& core_;
  const Setup setup_;

  // Written before the engine starts, read-only afterwards.
  int32_t sequence_ = -1;     // -1 = Enter has not succeeded yet
  bool took_tokens_ = false;  // TokenBudget::Take succeeded
  std::shared_ptr<const PromptPlan> plan_;
  v1::SamplingParams sampling_;
  std::vector<int32_t> forced_;  // GenerateRequest.forced_ids
  bool queued_ = false;          // passed to the engine
  int64_t preferred_ = -1;       // the episode's version, if the call keeps one

  // Used only by the thread that records the call or a slice.
  Episode::Unrecorded left_;
  std::vector<SegmentRef> slices_;  // that have ended
  size_t stored_slices_ = 0;        // acknowledged by the pool

  mutable base::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kWaiting;
  bool claimed_ ABSL_GUARDED_BY(mu_) = false;  // a thread is running Complete
  bool storing_ ABSL_GUARDED_BY(mu_) = false;  // a thread is running Continue and will call Complete if needed
  bool woken_ ABSL_GUARDED_BY(mu_) = false;    // TakeOutput has not been called since the last `wake`
  absl::Status abort_ ABSL_GUARDED_BY(mu_);    // why the call was aborted; OK = not aborted
  absl::Status engine_error_ ABSL_GUARDED_BY(mu_);
  bool delivers_ ABSL_GUARDED_BY(mu_) = false;  // kDone with an answer
  int asks_ ABSL_GUARDED_BY(mu_) = 0;  // number of times the call was resent; only the last engine's chunks count
  std::unique_ptr<rollout::Client::Request> handle_ ABSL_GUARDED_BY(mu_);
  // Handles for lost engines. They must not be destroyed within their own OnChunk.
  std::vector<std::unique_ptr<rollout::Client::Request>> lost_handles_ ABSL_GUARDED_BY(mu_);
  std::optional<std::chrono::nanoseconds> away_since_ ABSL_GUARDED_BY(mu_);  // when engines stopped accepting the call
  base::Timer ask_again_ ABSL_GUARDED_BY(mu_);  // its task only posts AskAfterWait, so it never waits for mu_
  Generation generation_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Delivery> delivery_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> echoed_arguments_ ABSL_GUARDED_BY(mu_);  // History::Call::echoed_arguments
};

}  // namespace ingot::gateway
