// One chat request, from its body to its last event.
//
//   kQueued --worker--> kPreparing --engine--> kGenerating --last chunk, or Abort--> kFinishing --worker--> kDone
//      |                    |  parse, find the episode, match,      |  ids come           |  parse, record in the pool
//      `-- Abort -----------`--- render, refuse --------------------'                     `- then deliver
//
// A finished answer's terminal event exists only after the pool acknowledged the call's record; a call that ends early
// is recorded with what was sampled so far. Thread safe. Owned by who asked (a connection) and, until kDone, by its
// episode. The gateway outlives it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/chat_request.h"
#include "gateway/chat_response.h"
#include "gateway/core.h"
#include "gateway/episode.h"
#include "gateway/generation.h"
#include "gateway/turn_text.h"

namespace ingot::gateway {

class ChatCall : public std::enable_shared_from_this<ChatCall> {
 public:
  // Finds (or, for a served session, opens) the episode; may block.
  using Resolve = std::function<absl::StatusOr<std::shared_ptr<Episode>>()>;

  // `wake` is called from any thread, possibly before the starter has this object, whenever Take may have something
  // new; it must not block nor call back into the gateway.
  ChatCall(Core& core, std::string body, Resolve resolve, std::function<void()> wake);

  struct Output {
    std::vector<std::string> events;  // JSON: the chunks of a stream, or the one completion
    bool stream = false;              // what the request asked for; known once there is an event
    bool done = false;
    absl::Status status;  // with done: why there is no (further) event
  };
  // What is ready since the last call; taking again says that it was sent. Never blocks.
  Output Take();

  // The client is gone (CANCELLED) or a limit was passed: stops sampling and records what there is. Does not wait.
  // Once the last chunk has come the call is finished as it is.
  void Abort(absl::Status why);

  // For the gateway:
  void Prepare();                 // on a worker
  void Complete();                // on a worker; the first caller does it
  void Refuse(absl::Status why);  // instead of Prepare
  // Called once, when the call is over for the gateway.
  void set_on_done(std::function<void(const std::shared_ptr<ChatCall>&)> on_done) { on_done_ = std::move(on_done); }
  std::chrono::nanoseconds arrival() const { return arrival_; }

 private:
  enum class Phase { kQueued, kPreparing, kGenerating, kFinishing, kDone };

  // Prepare's steps.
  absl::Status Run();
  absl::Status PlanPrompt(std::vector<int32_t>& prompt_ids);
  absl::Status RenderWhole(std::vector<int32_t>& prompt_ids);
  absl::Status CheckContext(size_t prompt_tokens);
  absl::Status SetSampling(size_t prompt_tokens);
  void PinSampling(const SamplingPin& pin);
  absl::Status AskSampling();
  absl::Status StartEngine(std::vector<int32_t> prompt_ids);
  void OnChunk(absl::StatusOr<v1::GenerateChunk> chunk);

  // Complete's steps.
  absl::Status Outcome();
  v1::Call Record(v1::FinishReason finish, const std::vector<Piece>& sampled);
  absl::Status Append(const v1::Call& record, const std::vector<Piece>& sampled);
  void Done(absl::Status status);
  void Count(const absl::Status& status, bool aborted);

  // Take's steps.
  void TakeStream(Output& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EmitDelta(base::json::object delta, const std::string& finish_reason, Output& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EmitFinal(Output& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  base::json::value TakeLogprobs(int last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int TextTokens() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Usage UsageNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Core& core_;
  const std::string call_id_;
  const std::chrono::nanoseconds arrival_;
  const int64_t arrival_unix_ns_;
  const Resolve resolve_;
  const std::function<void()> wake_;
  std::function<void(const std::shared_ptr<ChatCall>&)> on_done_;

  // Written by Prepare before the engine starts, read-only afterwards.
  std::string body_;
  ChatRequest request_;
  std::shared_ptr<Episode> episode_;
  int32_t sequence_ = 0;
  ConversationKeys keys_;
  Episode::Plan plan_;
  std::vector<Piece> prompt_pieces_;  // after those of plan_.path
  int64_t prompt_tokens_ = 0;
  v1::SamplingParams sampling_;
  int64_t queued_unix_ns_ = 0;
  std::optional<ChatRenderer> renderer_;

  mutable base::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kQueued;
  bool claimed_ ABSL_GUARDED_BY(mu_) = false;  // somebody runs Complete
  bool woken_ ABSL_GUARDED_BY(mu_) = false;    // wake was called and Take was not
  absl::Status abort_ ABSL_GUARDED_BY(mu_);    // why it was aborted
  absl::Status engine_error_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // kDone: the outcome
  std::unique_ptr<rollout::Client::Request> handle_ ABSL_GUARDED_BY(mu_);
  Generation generation_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<TurnText> text_ ABSL_GUARDED_BY(mu_);
  text::Message message_ ABSL_GUARDED_BY(mu_);  // kDone: what is delivered
  std::string finish_reason_ ABSL_GUARDED_BY(mu_);
  int fed_ ABSL_GUARDED_BY(mu_) = 0;             // ids pushed into text_
  int described_ ABSL_GUARDED_BY(mu_) = 0;       // ids whose log-probs were sent
  int confirmed_ ABSL_GUARDED_BY(mu_) = 0;       // ids whose text surely was sent
  bool opened_ ABSL_GUARDED_BY(mu_) = false;     // the stream's first chunk was taken
  bool delivered_ ABSL_GUARDED_BY(mu_) = false;  // the last event was taken
};

}  // namespace ingot::gateway
