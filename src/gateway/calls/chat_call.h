// One call of an engine, from its prompt to its record: one choice of an Answer.
//
//   kWaiting --Start--> kGenerating --last chunk, or Abort--> kFinishing --worker--> kDone
//      `- Fail, or Abort and then Start -----------------------------------------------^
//
// The last events come only after the pool acknowledged the call's record. A call that ends early is recorded with the
// ids sampled so far. Thread safe. Its Answer owns it and, until kDone, its episode. The gateway outlives it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
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
  // Constant properties of the call.
  struct Setup {
    std::string call_id;  // 32 hexadecimal digits
    int choice = 0;       // index among the request's choices
    std::shared_ptr<const GatewayRequest> request;
    std::shared_ptr<Episode> episode;
    std::chrono::nanoseconds arrival{};
    // Called from any thread whenever TakeOutput may return something new. It must not block or call the gateway.
    std::function<void()> wake;
    // Called once, when the call is over, before the last `wake`.
    std::function<void(const absl::Status&)> on_done;
  };
  ChatCall(Core& core, Setup setup) : core_(core), setup_(std::move(setup)) {}

  const std::string& id() const { return setup_.call_id; }

  // Enters the episode (Episode::BeginCall). Exactly one of Start and Fail must follow.
  absl::Status Enter();
  void Start(std::shared_ptr<const PromptPlan> plan);
  void Fail(absl::Status why);

  struct Output {
    std::vector<Event> events;
    bool done = false;
  };
  // The events since the last call. Each call confirms that the previous events were sent. Never blocks.
  Output TakeOutput();

  // Stops sampling and records the ids so far, unless the last chunk has come. Does not wait. `why`: CANCELLED if the
  // client is gone, or the limit that was exceeded.
  void Abort(absl::Status why);
  // Records an ended generation. Of several callers the first does it: a writer, or a thread that ends the episode.
  void Complete();

 private:
  enum class Phase { kWaiting, kGenerating, kFinishing, kDone };

  v1::GenerateRequest EngineRequest() const;
  const Backend& backend() const { return core_.backends.Of(setup_.request->model); }
  int64_t PinnedVersion() const;
  int64_t UnixNow() const { return setup_.episode->UnixNanosAt(core_.parts.clock->Now()); }
  void OnChunk(absl::StatusOr<v1::GenerateChunk> chunk);

  // Lets a writer run Complete. After this, requests that may continue the call can wait for it.
  void SubmitComplete();
  // Complete's steps.
  absl::Status Outcome();
  std::vector<std::string> EchoedOf(const text::Message& delivered) const;
  text::Message Turn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remember(bool whole, std::vector<SegmentRef> sampled);
  v1::Call Record(v1::FinishReason finish, const std::vector<SegmentRef>& sampled);
  absl::Status Append(const v1::Call& record, const std::vector<SegmentRef>& sampled);
  void Done(const absl::Status& status);
  void Count(const absl::Status& status, bool aborted);
  void CountTokens(const absl::Status& status);

  Core& core_;
  const Setup setup_;

  // Written before the engine starts, read-only afterwards.
  int32_t sequence_ = -1;     // -1 = not entered
  bool took_tokens_ = false;  // TokenBudget::Take succeeded
  std::shared_ptr<const PromptPlan> plan_;
  v1::SamplingParams sampling_;
  bool queued_ = false;  // it was handed to the engine

  Episode::Unrecorded left_;  // of the thread that records the call

  mutable base::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kWaiting;
  bool claimed_ ABSL_GUARDED_BY(mu_) = false;  // a thread runs Complete
  bool woken_ ABSL_GUARDED_BY(mu_) = false;    // `wake` was called, and TakeOutput was not called since
  absl::Status abort_ ABSL_GUARDED_BY(mu_);    // why it was aborted; OK = it was not
  absl::Status engine_error_ ABSL_GUARDED_BY(mu_);
  bool delivers_ ABSL_GUARDED_BY(mu_) = false;  // kDone with an answer
  std::unique_ptr<rollout::Client::Request> handle_ ABSL_GUARDED_BY(mu_);
  Generation generation_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Delivery> delivery_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> echoed_arguments_ ABSL_GUARDED_BY(mu_);  // History::Call::echoed_arguments
};

}  // namespace ingot::gateway
