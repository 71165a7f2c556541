// A Client that distributes requests across several engines. More engines may join. A Router (router.h) chooses the
// engine. If an engine rejects a request before the first chunk for a reason that may not apply to other engines, the
// request moves to the next engine. The set skips an unreachable engine for a while. Because such an engine rejects
// requests immediately, it would otherwise always have the shortest queue and attract all new ones.
//
// With RouterOptions::prefill_engines, a long prompt that its engine does not have is first computed by another engine
// (remote_prefill.h). Whether that works has no effect on the request's answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "rollout/client.h"
#include "rollout/routing/remote_prefill.h"
#include "rollout/routing/router.h"

namespace ingot::rollout {

class EngineSet final : public Client {
 public:
  // REQUIRES: `engines` is not empty, and `clock` outlives the set.
  EngineSet(std::vector<std::shared_ptr<Client>> engines, const base::Clock& clock, const RouterOptions& router = {});
  // Running requests continue until their engines end them, but no longer move to other engines.
  ~EngineSet() override;

  // Adds an engine for later requests. Engines cannot be removed. An engine that has left counts as unreachable.
  void Add(std::shared_ptr<Client> engine);

  // The caller gets UNAVAILABLE (gone, or older than min_version), RESOURCE_EXHAUSTED, or NOT_FOUND (pinned version)
  // only after every engine has rejected the request. In that case, the caller gets the last error.
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;

  // Sums the counters of the engines that answer. The version is the oldest among them, and the held versions come from
  // the same engine. If no engine answers, returns the last engine's error.
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

  // Returns the router's counters in Prometheus text format.
  std::string MetricsText() const;

 private:
  class State;
  class Call;
  class Handle;

  Client& At(size_t engine) const;

  const std::shared_ptr<State> state_;
  mutable base::Mutex mu_;
  std::vector<std::shared_ptr<Client>> engines_ ABSL_GUARDED_BY(mu_);  // never shrinks
};

}  // namespace ingot::rollout
