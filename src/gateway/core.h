// What every part of the gateway shares: its options, the services below it, its workers and its counters. Internal to
// the folder; gateway.h is the interface.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "datapool/client.h"
#include "gateway/admission.h"
#include "gateway/options.h"
#include "gateway/script.h"
#include "gateway/worker_pool.h"
#include "rollout/client.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace ingot::gateway {

// The services a gateway stands on. They outlive it.
struct GatewayParts {
  std::shared_ptr<rollout::Client> engine;
  std::map<std::string, std::shared_ptr<rollout::Client>> external = {};  // by name of GatewayOptions::models
  datapool::Client* pool = nullptr;                                       // null: nothing is recorded (`ingot serve`)
  Admission* admission = nullptr;  // null: any key is accepted, every episode is a served one
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  std::shared_ptr<ScriptedModel> script = nullptr;  // what calls sample instead of drawing; null: they draw
  std::string admin_key = {};  // where options.admin_key_file names none; empty: whoever reaches it may open episodes
  const base::Clock* clock = &base::Clock::Real();
};

// Counters since start. Thread safe.
struct Counters {
  std::atomic<int64_t> calls{0};      // answered, whatever the answer
  std::atomic<int64_t> completed{0};  // delivered whole
  std::atomic<int64_t> aborted{0};    // client gone, episode ended or deadline
  std::atomic<int64_t> failed{0};     // anything else
  std::atomic<int64_t> refused{0};    // turned away for want of room
  std::atomic<int64_t> spliced{0};
  std::atomic<int64_t> recorded{0};  // calls acknowledged by the pool
  std::atomic<int64_t> record_failures{0};
  std::atomic<int64_t> malformed_tool_calls{0};
  std::atomic<int64_t> tool_choice_unforced{0};  // required tool calls that the model answered in text
  std::atomic<int64_t> flagged{0};               // sampled under a grammar, penalty or bias: not trained on
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> rendered_tokens{0};  // of those, encoded from text for this call: not an earlier call's ids
  std::atomic<int64_t> cached_tokens{0};
  std::atomic<int64_t> sampled_tokens{0};
  std::atomic<int64_t> episodes_opened{0};
  std::atomic<int64_t> episodes_finished{0};
  std::atomic<int64_t> episodes_failed{0};
  std::atomic<int64_t> episodes_fenced{0};
  std::atomic<int64_t> episodes_refused{0};
  std::atomic<int64_t> active_calls{0};

  // One answered call, or a request that came to none.
  void CountCall(const absl::Status& status, bool was_aborted);
  void AddFork(const std::string& cause) {
    base::MutexLock lock(mu_);
    ++forks_[cause];
  }
  std::map<std::string, int64_t> forks() const {
    base::MutexLock lock(mu_);
    return forks_;
  }

 private:
  mutable base::Mutex mu_;
  std::map<std::string, int64_t> forks_ ABSL_GUARDED_BY(mu_);
};

// Who samples for a model's name, and with which weights.
struct Backend {
  rollout::Client* engine = nullptr;
  v1::WeightsMode weights = v1::WEIGHTS_FOLLOW;
  int64_t version = -1;                            // WEIGHTS_PINNED: which
  mutable std::atomic<int32_t> context_length{0};  // of the engine; 0: not known yet
};

struct Core {
  Core(GatewayOptions opts, GatewayParts services);
  // Of a name that clients ask for. What the configuration does not name follows training.
  const Backend& BackendOf(const std::string& model) const;

  const GatewayOptions options;
  const GatewayParts parts;
  Counters counters;
  Backend follow;                           // of every name that is not in
  std::map<std::string, Backend> backends;  // as they are configured; constant but for context lengths
  WorkerPool writers;                       // finish calls: each waits for the pool's disk, and none for a new request
  WorkerPool workers;                       // last: joined before the rest goes
};

// The error of whatever comes after a gateway's Shutdown, and of what was in flight when it came.
absl::Status ShuttingDown();

}  // namespace ingot::gateway
