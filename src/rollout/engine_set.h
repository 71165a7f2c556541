// EngineSet is one client over several engines; more engines may join. A request goes to the engine with the fewest
// requests in flight from this set. If an engine rejects it before its first chunk, for a reason that another engine
// may not have, the request moves to the next engine. The set skips an engine that is gone for a while. Such an engine
// rejects requests at once, so it would always have the fewest in flight and attract every request.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "rollout/client.h"

namespace ingot::rollout {

class EngineSet final : public Client {
 public:
  // `engines` has at least one engine. `clock` outlives the set.
  EngineSet(std::vector<std::shared_ptr<Client>> engines, const base::Clock& clock);
  // Running requests end as their engine ends them; after that no request moves.
  ~EngineSet() override;

  // Later requests may go to this engine too. Engines cannot be removed: an engine that left counts as gone.
  void Add(std::shared_ptr<Client> engine);

  // UNAVAILABLE (gone, or older than min_version), RESOURCE_EXHAUSTED and NOT_FOUND (pinned version) reach the caller
  // only after every engine rejected the request. The caller gets the last error.
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;

  // Adds up the counters of the engines that answer. The version is the oldest among them, and the held versions come
  // from the same engine. If no engine answers: the error of the last engine.
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

 private:
  class State;
  class Call;
  class Handle;

  Client& At(size_t engine) const;

  const std::shared_ptr<State> state_;
  mutable base::Mutex mu_;
  std::vector<std::shared_ptr<Client>> engines_ ABSL_GUARDED_BY(mu_);  // never shorter
};

}  // namespace ingot::rollout
