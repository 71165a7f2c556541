// Defines the gateway's options. The Bind functions declare each key with its meaning, bounds, and choices. This header
// does not include sockets, torch, or gRPC.
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

// The distribution from which all of an episode's calls sample, regardless of the client's request.
struct SamplingPin {
  float temperature = 1.0f;  // 0 = greedy, only for evaluations
  float top_p = 1.0f;
  int32_t top_k = 0;
  float min_p = 0.0f;
};

// Specifies how to handle earlier reasoning that the chat template would omit from a later prompt.
enum class HistoryThinking {
  kTemplate,  // omit it, as in deployment; the prompt begins a branch
  kKeep,      // keep it in the prompt, which then continues the sampled ids
};

// The weights to which a model name refers. Only kFollow calls are trained on.
enum class ModelWeights {
  kFollow,  // the newest live version, at every decode step
  kPinned,  // one of this run's versions, which the engines retain
  // the weights of an external server, such as another Ingot rollout role, over proto/rollout.proto or as text
  kExternal,
};

struct ModelOptions {
  std::string name;
  ModelWeights weights = ModelWeights::kFollow;
  int64_t version = 0;
  std::string address;  // kExternal has either `address` or `url`
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
  // True = names that are not listed follow training, or use `stand_in`, and are recorded as sent. False = 404.
  bool any_model_name = true;
  // The name in `models` that unlisted names use, in runs that do not train (`ingot collect`). Empty = none.
  std::string stand_in = {};
  SamplingPin train_sampling;  // for PURPOSE_TRAIN; served episodes sample as their client requests
  SamplingPin eval_sampling;   // for PURPOSE_EVAL
  uint64_t seed = 0;           // root seed for training and evaluation; served episodes use the client's seed
  int32_t max_new_tokens = 4096;
  int32_t eval_max_new_tokens = 0;
  int32_t default_max_tokens = 0;
  int32_t max_active_calls = 10240;
  int32_t max_open_episodes = 4096;      // at the limit, the oldest idle session is ended
  int32_t max_calls_per_episode = 4096;  // at the limit, a served session forgets its history
  int64_t max_tokens_per_episode = 0;
  int64_t max_tokens_per_session = 16'000'000;
  double episode_deadline_s = 0;
  double call_deadline_s = 600;
  double episode_idle_s = 3600;
  double episode_first_call_s = 300;  // for episodes that external clients opened
  double end_wait_s = 30;
  double engine_wait_s = 60;
  HistoryThinking history_thinking = HistoryThinking::kTemplate;
  base::json::object template_variables = {};  // text/chat/template_variables.h
  bool auto_episodes = false;
  // True = each conversation has its own served session (session_key.h). False = each key has one session. True for
  // `ingot serve`, whose clients often send the same key.
  bool session_per_conversation = false;
  // The key has at least 16 bytes, not counting surrounding whitespace. It is required to open an episode, can reward
  // and end any episode, and cannot call models. Empty = the key of GatewayParts, if any.
  std::string admin_key_file;
  int32_t worker_threads = 16;
  int32_t writer_threads = 16;
  int32_t max_queued_work = 10240;
  std::string public_url;

  // Returns INVALID_ARGUMENT if an option is invalid. The error names the option.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, ModelOptions& options);
void Bind(base::Schema& schema, SamplingPin& options);
void Bind(base::Schema& schema, GatewayOptions& options);
// Declares the keys in the evaluation section.
void BindEvaluation(base::Schema& schema, GatewayOptions& options);

// Episode.cause for episodes that ended because their client made no calls.
inline constexpr char kNeverCalled[] = "never_called";
inline constexpr size_t kMaxRememberedEnds = 16384;  // ended episodes whose late calls get 410 instead of 401
inline constexpr double kSessionIdleS = 900;         // seconds without a call before a served session ends
inline constexpr int kRetryAfterS = 1;               // Retry-After for 429 and 503 responses, in seconds

// Returns true if a model is pinned to this version. If so, engines retain the version for the entire run.
bool PinsVersion(const GatewayOptions& options, int64_t version);

// Returns the key in admin_key_file, or "" if no file is configured. Returns the same errors as base::ReadSecret.
absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options);

}  // namespace ingot::gateway
