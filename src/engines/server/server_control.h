// Makes blocking calls to one server: health checks, capability checks, and weight changes. Thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engines/api/engine_api.h"
#include "http/client.h"

namespace ingot::engines {

// Specifies which of a server's weights a request uses.
struct ServedWeights {
  ServedWeights(std::string salt_, std::string adapter_ = {})  // NOLINT(google-explicit-constructor)
      : salt(std::move(salt_)), adapter(std::move(adapter_)) {}
  ServedWeights(const char* salt_) : salt(salt_) {}  // NOLINT(google-explicit-constructor)

  std::string salt, adapter;  // as in GenerateContext
};

class ServerControl {
 public:
  // `key` is the server's bearer token; empty = none. REQUIRES: `api` outlives this object.
  ServerControl(const EngineApi& api, std::string key) : api_(api), key_(std::move(key)) {}

  // Makes current and later calls fail with CANCELLED.
  void Stop() { stopped_ = true; }
  // Makes current calls fail with CANCELLED, because the server does not respond.
  void Interrupt() { ++interrupts_; }
  void set_url(std::string url) ABSL_LOCKS_EXCLUDED(mu_);
  std::string url() const ABSL_LOCKS_EXCLUDED(mu_);
  std::string name() const { return absl::StrCat(api_.name(), " at ", url()); }  // for messages

  // Returns the response's body. Returns EngineApi::StatusOf for an error status, DEADLINE_EXCEEDED after the timeout,
  // and UNAVAILABLE if the server does not respond.
  absl::StatusOr<std::string> Call(const ServerRequest& request, std::chrono::milliseconds timeout);
  // Returns OK if the server responds and is healthy.
  absl::Status Health();
  absl::StatusOr<std::string> Label();
  // Pauses the server. `timeout` is for each of the calls.
  absl::Status Pause(SwapMode mode, std::chrono::milliseconds timeout);
  // Loads these weights into the server and labels them. REQUIRES: the server is paused.
  absl::Status LoadAndLabel(const std::string& model_dir, const std::string& label, std::chrono::milliseconds timeout);

  // Returns the complete answer to a sampling request.
  absl::StatusOr<AnswerEvent> Answer(const v1::GenerateRequest& request, const GenerateContext& context,
                                     std::chrono::milliseconds timeout);
  // Samples one id after the prompt, at temperature 1 unless given, with the 5 most likely ids.
  absl::StatusOr<AnswerEvent> Sample(const ServedModel& model, const std::vector<int32_t>& prompt,
                                     const ServedWeights& served, std::chrono::milliseconds timeout,
                                     float temperature = 1);
  // Samples `count` ids after the prompt, at temperature 1. Returns DATA_LOSS if an id is outside the vocabulary, and
  // UNAVAILABLE if the answer is cut off.
  absl::StatusOr<AnswerEvent> Continue(const ServedModel& model, const std::vector<int32_t>& prompt, int32_t count,
                                       const ServedWeights& served, std::chrono::milliseconds timeout);
  // Scores all of the prompt's ids except the first.
  absl::StatusOr<AnswerEvent> Score(const ServedModel& model, const std::vector<int32_t>& prompt,
                                    const ServedWeights& served, std::chrono::milliseconds timeout);

  // Checks a server before its first weights, and determines what its log-probs mean. Returns FAILED_PRECONDITION if it
  // lacks a feature that Ingot or swaps of this kind need, reports logits, or has another vocabulary or a shorter
  // context. Resumes the server. `timeout` is for one request, because a server may compile kernels for its first
  // request.
  absl::StatusOr<LogprobKind> CheckStart(const ServedModel& model, SwapMode swap, std::chrono::milliseconds timeout);

 private:
  // Returns whether the server can sample the id; nullopt = unknown, because biases have no effect.
  absl::StatusOr<std::optional<bool>> KnowsId(const ServedModel& model, int32_t id, std::chrono::milliseconds timeout);
  absl::Status CheckVocabulary(const ServedModel& model, std::chrono::milliseconds timeout);

  const EngineApi& api_;
  const std::string key_;
  http::Client client_;
  std::atomic<bool> stopped_{false};
  std::atomic<int64_t> interrupts_{0};
  mutable base::Mutex mu_;
  std::string url_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::engines
