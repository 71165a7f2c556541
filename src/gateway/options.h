// The gateway's options. Their Bind functions declare each key with its meaning, bounds and choices. This header has no
// sockets, torch or gRPC.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::gateway {

// The distribution from which all calls of an episode sample, whatever the client requests.
struct SamplingPin {
  float temperature = 1.0f;  // 0 = greedy, only of evaluations
  float top_p = 1.0f;
  int32_t top_k = 0;
  float min_p = 0.0f;
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
  std::string name;
  ModelWeights weights = ModelWeights::kFollow;
  int64_t version = 0;
  std::string address;  // kExternal has an address or a url
  std::string token_file = {};
  std::string ca = {};
  std::string url = {};
  std::string served_model = {};
  std::string key_file = {};
  bool stream = false;
  double timeout_s = 300;
  int32_t concurrency = 8;
};

struct GatewayOptions {
  std::string model_name = "ingot";
  std::vector<ModelOptions> models;
  // Unlisted names follow training, or use the stand-in, and are recorded as sent. False: they are a 404.
  bool any_model_name = true;
  // The name in `models` that unlisted names use, in runs that do not train (`ingot collect`). Empty = none.
  std::string stand_in = {};
  SamplingPin train_sampling;  // of PURPOSE_TRAIN episodes; served episodes sample as their client asks
  SamplingPin eval_sampling;   // of PURPOSE_EVAL episodes
  uint64_t seed = 0;           // root of the seeds of training and evaluation; served episodes use the client's
  int32_t max_new_tokens = 4096;
  int32_t eval_max_new_tokens = 0;
  int32_t default_max_tokens = 0;
  int32_t max_active_calls = 10240;
  int32_t max_open_episodes = 4096;      // the oldest idle session makes room first
  int32_t max_calls_per_episode = 4096;  // a served session forgets its history instead
  int64_t max_tokens_per_episode = 0;
  int64_t max_tokens_per_session = 16'000'000;
  double episode_deadline_s = 0;
  double call_deadline_s = 600;
  double episode_idle_s = 3600;
  double episode_first_call_s = 300;  // of episodes that no runner opened
  double end_wait_s = 30;
  HistoryThinking history_thinking = HistoryThinking::kTemplate;
  base::json::object template_variables = {};  // text/chat/template_variables.h
  bool auto_episodes = false;
  // Each conversation has its own served session (session_key.h); false = each key has one. For `ingot serve`, whose
  // clients often send the same key.
  bool session_per_conversation = false;
  // The key has at least 16 bytes; white space around it is ignored. Opening an episode requires it; it also rewards and
  // ends any episode, and calls no model. Empty = the key of GatewayParts, if any.
  std::string admin_key_file;
  int32_t worker_threads = 16;
  int32_t writer_threads = 16;
  int32_t max_queued_work = 10240;
  std::string public_url;

  // INVALID_ARGUMENT names the option.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, ModelOptions& options);
void Bind(base::Schema& schema, SamplingPin& options);
void Bind(base::Schema& schema, GatewayOptions& options);
// The keys in the section of evaluations.
void BindEvaluation(base::Schema& schema, GatewayOptions& options);

// Episode.cause of episodes that ended because their client made no call.
inline constexpr char kNeverCalled[] = "never_called";
inline constexpr size_t kMaxRememberedEnds = 16384;  // ended episodes whose late calls get 410 instead of 401
inline constexpr double kSessionIdleS = 900;         // seconds without a call until a served session ends
inline constexpr int kRetryAfterS = 1;               // seconds that a 429 or 503 response asks the client to wait

// Whether a model is pinned to that version. Engines then retain it for the whole run.
bool PinsVersion(const GatewayOptions& options, int64_t version);

// The key in admin_key_file; empty if no file is named. INVALID_ARGUMENT: as base::ReadSecret.
absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options);

}  // namespace ingot::gateway
