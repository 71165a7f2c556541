// Chooses the engine for a request by its estimated time to the first token. For a prompt of n tokens and engine e:
//
//   cost(e) = seconds_per_token(e) * (pending(e) + n - hit(e) + load_weight * (in_flight(e) - least in_flight))
//
//   pending(e)    prompt tokens of e's requests without a first token, excluding those that are probably cached
//   hit(e)        prompt tokens that e probably has in its KV cache (predicted_prefixes.h), including a prompt that it
//                 is computing now
//   in_flight(e)  requests sent to e that have not ended
//
// The engine with the least cost gets the request. An episode's last engine keeps its calls unless it costs more than
// `stay` times the least cost plus 5 ms. Among costs within 5% of the least, the largest hit wins. Ties are broken at
// random, so that several routers do not all choose the same engine.
//
// Counts and predictions cover only this router's requests, not other routers'. Speeds are learned from ended requests.
// Pure: reads no clock and does no I/O. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rollout/cache/prefix_keys.h"
#include "rollout/routing/predicted_prefixes.h"
#include "rollout/routing/router_options.h"

namespace ingot::rollout {

struct RouterStats {
  int64_t moved = 0, stayed = 0;              // calls of known episodes that left their last engine, or did not
  int64_t prefills = 0, prefills_failed = 0;  // prompts that another engine was asked to compute, and those it did not
  // Mean of |estimate - time to the first token| / time, over requests with a first token.
  int64_t estimates = 0;
  double error_sum = 0;
  double cost_error() const { return estimates == 0 ? 0 : error_sum / static_cast<double>(estimates); }
};

class Router {
 public:
  // A request on an engine. Created by Send, updated by FirstToken, and passed to End exactly once.
  struct Sent {
    size_t engine = 0;
    int64_t tokens = 0;   // prompt tokens
    int64_t pending = 0;  // predicted number of tokens to compute; 0 after the first token
    int64_t ahead = 0;    // pending tokens of earlier requests
    double estimate = 0;  // seconds to the first token
    std::chrono::nanoseconds sent{0};
    std::chrono::nanoseconds until_first{0};  // 0 = no first token yet
  };

  Router(const RouterOptions& options, size_t engines, uint64_t seed = 0);

  void AddEngine();
  size_t engines() const { return engines_.size(); }

  // Chooses one of `candidates`, which is not empty. `lineage` identifies the episode; 0 = unknown.
  Sent Send(const PrefixKeys& prompt, uint64_t lineage, std::span<const size_t> candidates,
            std::chrono::nanoseconds now);
  void FirstToken(Sent& sent, std::chrono::nanoseconds now);
  // Call when the request has ended or its engine has rejected it.
  void End(Sent& sent);
  // Call before End if the answer is complete. `whole` is the prompt and the answer. `cached` is the number of prompt
  // tokens that the engine had. `timed` = the engine started the request immediately.
  void Answered(const Sent& sent, const PrefixKeys& whole, int64_t cached, bool timed, std::chrono::nanoseconds now);

  void SawVersion(size_t engine, int64_t version) { prefixes_.SawVersion(engine, version); }
  // Call if the engine may have restarted.
  void Forget(size_t engine) { prefixes_.Forget(engine); }

  bool uses_prefixes() const { return options_.policy == RouterPolicy::kCost; }
  const RouterStats& stats() const { return stats_; }

 private:
  struct Engine {
    int64_t in_flight = 0, pending = 0;
    double seconds = 0, tokens = 0;  // exponentially weighted sums over ended requests; tokens == 0: none
  };

  size_t Choose(const PrefixKeys& prompt, uint64_t lineage, std::span<const size_t> candidates);
  size_t Fewest(std::span<const size_t> candidates);
  size_t Cheapest(const PrefixKeys& prompt, const size_t* last, std::span<const size_t> candidates);
  double SecondsPerToken(size_t engine) const;
  double CostOf(size_t engine, int64_t tokens, int64_t least_in_flight) const;
  const size_t* LastEngine(uint64_t lineage, std::span<const size_t> candidates) const;
  void SetLastEngine(uint64_t lineage, size_t engine);

  const RouterOptions options_;
  const uint64_t seed_;
  uint64_t draws_ = 0;
  size_t next_ = 0;
  std::vector<Engine> engines_;
  PredictedPrefixes prefixes_;
  absl::flat_hash_map<uint64_t, size_t> last_, older_last_;  // engine by lineage; at most kMostLineages each
  RouterStats stats_;
  std::vector<int64_t> hits_;  // hits of the request being sent
  std::vector<double> costs_;
};

}  // namespace ingot::rollout
