// One call of the engine, from its prompt to its record: one choice of an Answer.
//
//   kWaiting --Start--> kGenerating --last chunk, or Abort--> kFinishing --worker--> kDone
//      `- Fail, or Abort and then Start -----------------------------------------------^
//
// Its last events exist only after the pool acknowledged the call's record; a call that ends early is recorded with
// what was sampled so far. Thread safe. Owned by its Answer and, until kDone, by its episode. The gateway outlives it.
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
#include "gateway/core.h"
#include "gateway/delivery.h"
#include "gateway/episode.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/prompt_plan.h"

namespace ingot::gateway {

class ChatCall : public std::enable_shared_from_this<ChatCall> {
 public:
  // What it is of, fixed from the start.
  struct Setup {
    std::string call_id;  // 32 hexadecimal digits
    int choice = 0;       // of the request's
    std::shared_ptr<const GatewayRequest> request;
    std::shared_ptr<Episode> episode;
    std::chrono::nanoseconds arrival{};
    int64_t arrival_unix_ns = 0;
    // From any thread, whenever Take may have something new; must not block nor call back into the gateway.
    std::function<void()> wake;
    // Once, when the call is over, before the last `wake`.
    std::function<void(const absl::Status&)> on_done;
  };
  ChatCall(Core& core, Setup setup) : core_(core), setup_(std::move(setup)) {}

  const std::string& id() const { return setup_.call_id; }

  // Lets it into its episode: 410, or 400 when that had all its calls. Then exactly one of Start and Fail follows.
  absl::Status Enter();
  void Start(std::shared_ptr<const PromptPlan> plan);
  void Fail(absl::Status why);

  struct Output {
    std::vector<Event> events;
    bool done = false;
  };
  // What is ready since the last call; taking again says that it was sent. Never blocks.
  Output Take();

  // The client is gone (CANCELLED) or a limit was passed: stops sampling and records what there is. Does not wait.
  // Once the last chunk has come the call is finished as it is.
  void Abort(absl::Status why);
  // Finishes an ended generation; the first caller does it. On a worker, or for who waits for it.
  void Complete();

 private:
  enum class Phase { kWaiting, kGenerating, kFinishing, kDone };

  v1::GenerateRequest EngineRequest() const;
  const Backend& backend() const { return core_.backends.Of(setup_.request->model); }
  int64_t PinnedVersion() const;
  void OnChunk(absl::StatusOr<v1::GenerateChunk> chunk);

  // Has Complete run by a writer. What asks for it later can wait for the call to be known.
  void SubmitComplete();
  // Complete's steps.
  absl::Status Outcome();
  std::vector<std::string> EchoedOf(const text::Message& delivered) const;
  void Remember(bool whole, std::vector<Piece> sampled);
  v1::Call Record(v1::FinishReason finish, const std::vector<Piece>& sampled);
  absl::Status Append(const v1::Call& record, const std::vector<Piece>& sampled);
  void Done(const absl::Status& status);
  void Count(const absl::Status& status, bool aborted);
  void CountTokens(const absl::Status& status);

  Core& core_;
  const Setup setup_;

  // Written before the engine starts, read-only afterwards.
  int32_t sequence_ = -1;     // -1: never let in
  bool took_tokens_ = false;  // of its episode's
  std::shared_ptr<const PromptPlan> plan_;
  v1::SamplingParams sampling_;
  int64_t queued_unix_ns_ = 0;

  mutable base::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kWaiting;
  bool claimed_ ABSL_GUARDED_BY(mu_) = false;  // somebody runs Complete
  bool woken_ ABSL_GUARDED_BY(mu_) = false;    // wake was called and Take was not
  absl::Status abort_ ABSL_GUARDED_BY(mu_);    // why it was aborted
  absl::Status engine_error_ ABSL_GUARDED_BY(mu_);
  bool delivers_ ABSL_GUARDED_BY(mu_) = false;  // kDone: with an answer
  std::unique_ptr<rollout::Client::Request> handle_ ABSL_GUARDED_BY(mu_);
  Generation generation_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Delivery> delivery_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> echoed_arguments_ ABSL_GUARDED_BY(mu_);  // History::Call's, of what it delivered
};

}  // namespace ingot::gateway
