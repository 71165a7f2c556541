// What can be configured about the gateway. Free of sockets, torch and gRPC, so that the configuration schema can bind
// to these fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::gateway {

// The distribution every call of an episode samples from, whatever its client asks.
struct SamplingPin {
  float temperature = 1.0f;  // training: > 0; evaluation: 0 is greedy
  float top_p = 1.0f;        // in (0, 1]; 1: off
  int32_t top_k = 0;         // 0: off
  float min_p = 0.0f;        // in [0, 1); 0: off
};

// What becomes of the reasoning of earlier turns that the chat template would leave out of a later prompt.
enum class HistoryThinking {
  kTemplate,  // left out, as in deployment: such a prompt begins a branch
  kKeep,      // it stays in context: the prompt goes on from what was sampled
};

// Which weights a model's name stands for. Only what follows is trained on.
enum class ModelWeights {
  kFollow,    // the newest live version at every decode step
  kPinned,    // one version of this run, which its engines retain
  kExternal,  // a server outside this run that speaks proto/rollout.proto: any Ingot rollout role is one
};

struct ModelOptions {
  std::string name;  // what clients ask for; unique
  ModelWeights weights = ModelWeights::kFollow;
  int64_t version = 0;  // kPinned: >= 0
  std::string address;  // kExternal: "host:port"; its model must have this run's tokenizer
};

struct GatewayOptions {
  std::string model_name = "ingot";  // what /v1/models lists first; it follows training
  std::vector<ModelOptions> models;  // further names; any other one follows training too, and is recorded as asked
  SamplingPin train_sampling;        // pins PURPOSE_TRAIN episodes; served ones sample as their client asks
  SamplingPin eval_sampling;         // pins PURPOSE_EVAL episodes
  uint64_t seed = 0;                 // root of the seeds of pinned calls; a client's seed counts in served ones only
  int32_t max_new_tokens = 4096;     // tokens per call; what a client asks beyond is cut to it
  int32_t default_max_tokens = 0;    // tokens per call whose client names no limit; 0: max_new_tokens
  int32_t max_active_calls = 10240;  // calls in flight; beyond: 429
  int32_t max_open_episodes =
      4096;  // episodes and served sessions held; beyond: 429 (the oldest idle session goes first)
  int32_t max_calls_per_episode = 4096;  // beyond: 400, not retryable; a served session forgets its history instead
  int64_t max_tokens_per_episode = 0;  // tokens of all its calls, prompts counted whole; beyond: the same. 0: no limit
  int64_t max_tokens_per_session = 16'000'000;  // tokens in a served session's history; then it begins a new one
  double episode_deadline_s = 0;        // seconds from an episode's opening after which it is ended as failed. 0: none
  int32_t max_remembered_ends = 16384;  // ended episodes whose late calls still get 410 instead of 401
  double call_deadline_s = 600;         // seconds from arrival to the last token; beyond: aborted and 504. 0: none
  double episode_idle_s = 3600;  // seconds without a call after which an admitted episode is ended as failed. 0: never
  double session_idle_s = 900;   // the same for served sessions, which auto_episodes opens too. 0: never
  double end_wait_s = 30;        // seconds that ending an episode waits for its aborted calls to be recorded
  double retry_after_s = 1;      // seconds that a 429 or 503 asks its client to wait
  HistoryThinking history_thinking = HistoryThinking::kTemplate;
  bool auto_episodes = false;  // an unknown API key opens a session instead of 401: recorded, never trained on
  // File that holds the admin key (>= 16 bytes, white space around it does not count). Who opens episodes must send it;
  // it rewards and ends any of them, and calls no model. Empty: that of GatewayParts, if there is one.
  std::string admin_key_file;
  int32_t worker_threads = 16;  // threads for what blocks or takes long: parsing, rendering, admission
  int32_t writer_threads = 16;  // calls that are recorded at a time: they share the pool's fsyncs
  int64_t max_known_request_bytes = int64_t{384} << 20;  // of earlier requests, kept to read later ones faster. 0: none
  int32_t max_queued_work = 10240;  // requests waiting for a worker, of the calls in flight; beyond: 503
  std::string public_url;           // what agents are told, e.g. "http://10.0.0.5:8080"; empty: the address listened on

  absl::Status Validate() const;
};

// Whether a model is pinned to that version: engines are to retain it as long as the run lasts.
bool PinsVersion(const GatewayOptions& options, int64_t version);

// The key in admin_key_file; empty if none is named. INVALID_ARGUMENT: it cannot be read, or is too short.
absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options);

}  // namespace ingot::gateway
