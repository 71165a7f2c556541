// The gateway's options. The configuration schema binds to these fields, so this header has no sockets, torch or gRPC.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::gateway {

// The distribution from which all calls of an episode sample, whatever the client requests.
struct SamplingPin {
  float temperature = 1.0f;  // training: > 0; evaluation: 0 = greedy
  float top_p = 1.0f;        // in (0, 1]; 1 = off
  int32_t top_k = 0;         // 0 = off
  float min_p = 0.0f;        // in [0, 1); 0 = off
};

// How to treat earlier reasoning that the chat template would leave out of a later prompt.
enum class HistoryThinking {
  kTemplate,  // left out, as in deployment; the prompt begins a branch
  kKeep,      // it stays in the prompt, which continues the sampled ids
};

// The weights that a model's name refers to. Only calls of kFollow are trained on.
enum class ModelWeights {
  kFollow,    // the newest live version at every decode step
  kPinned,    // one version of this run, which its engines retain
  kExternal,  // of a server outside this run: over proto/rollout.proto (such as another Ingot rollout role), or text
};

struct ModelOptions {
  std::string name;  // the model name in requests; unique
  ModelWeights weights = ModelWeights::kFollow;
  int64_t version = 0;          // kPinned: >= 0
  std::string address;          // kExternal: "host:port"; its model must have this run's tokenizer. Empty = `url`
  std::string token_file = {};  // kExternal: a file with the token that the server requires. Empty = none
  std::string ca = {};          // kExternal: PEM file; the server speaks TLS, verified against it. Empty = plain text
  // kExternal: base URL of a server of OpenAI's chat completions, which returns only text
  // ("https://vendor.example/v1"). Empty = `address`
  std::string url = {};
  std::string served_model = {};  // of `url`: the model's name there. Empty = `name`
  std::string key_file = {};      // of `url`: a file with its bearer key. Empty = none
  bool stream = false;            // of `url`: ask for a stream of server-sent events
  double timeout_s = 300;         // of `url`: seconds of one request
  int32_t concurrency = 8;        // of `url`: requests at a time
};

struct GatewayOptions {
  std::string model_name = "ingot";  // the first name in /v1/models; it follows training
  std::vector<ModelOptions> models;  // more names; unlisted names follow training and are recorded as sent
  // The name in `models` that unlisted names use, in runs that do not train (`ingot collect`). Empty = none.
  std::string stand_in = {};
  SamplingPin train_sampling;        // of PURPOSE_TRAIN episodes; served episodes sample as their client asks
  SamplingPin eval_sampling;         // of PURPOSE_EVAL episodes
  uint64_t seed = 0;                 // root of the seeds of training and evaluation; served episodes use the client's
  int32_t max_new_tokens = 4096;     // tokens per call; caps a client's higher limit
  int32_t eval_max_new_tokens = 0;   // the same for calls of PURPOSE_EVAL episodes; 0 = max_new_tokens
  int32_t default_max_tokens = 0;    // tokens per call whose client sets no limit; 0 = max_new_tokens
  int32_t max_active_calls = 10240;  // calls in flight; beyond: 429
  int32_t max_open_episodes =
      4096;  // episodes and served sessions held; beyond: 429 (the oldest idle session goes first)
  int32_t max_calls_per_episode = 4096;  // beyond: 400, not retryable; a served session forgets its history instead
  int64_t max_tokens_per_episode = 0;    // tokens of all calls, prompts counted whole; beyond: the same. 0 = no limit
  int64_t max_tokens_per_session = 16'000'000;  // tokens in a served session's history; then it begins a new one
  double episode_deadline_s = 0;                // seconds from an episode's opening to its end as failed. 0 = none
  int32_t max_remembered_ends = 16384;          // ended episodes whose late calls still get 410 instead of 401
  double call_deadline_s = 600;  // seconds from arrival to the last token; beyond: aborted and 504. 0 = none
  double episode_idle_s = 3600;  // seconds without a call until an admitted episode ends as failed. 0 = never
  double session_idle_s = 900;   // the same for served sessions, auto_episodes' included. 0 = never
  double end_wait_s = 30;        // seconds that ending an episode waits for its aborted calls to be recorded
  double retry_after_s = 1;      // seconds that a 429 or 503 asks its client to wait
  HistoryThinking history_thinking = HistoryThinking::kTemplate;
  // Variables of the chat template in each request of any dialect; a client's own win (text/chat/template_variables.h).
  base::json::object template_variables = {};
  bool auto_episodes = false;  // an unknown API key opens a session instead of 401: recorded, never trained on
  // A file with the admin key (>= 16 bytes; white space around it is ignored), which only its owner may read. Opening
  // an episode requires it; it also rewards and ends any episode, and calls no model. Empty = the key of GatewayParts,
  // if any.
  std::string admin_key_file;
  int32_t worker_threads = 16;      // threads that parse, render and wait for admission
  int32_t writer_threads = 16;      // calls recorded at a time, which share the pool's fsyncs
  int32_t max_queued_work = 10240;  // requests that wait for a worker; beyond: 503
  std::string public_url;  // the URL for agents, such as "http://10.0.0.5:8080"; empty = the address listened on

  absl::Status Validate() const;
};

// Whether a model is pinned to that version. Engines then retain it for the whole run.
bool PinsVersion(const GatewayOptions& options, int64_t version);

// The key in admin_key_file; empty if no file is named. INVALID_ARGUMENT: as base::ReadSecret.
absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options);

}  // namespace ingot::gateway
