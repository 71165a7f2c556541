// EngineSet is one client over several engines; more may join. A request goes to the engine with the fewest requests in flight from
// here. If an engine refuses it before its first chunk, for a cause that another engine may not have, the request moves
// to the next engine. An engine that is gone is passed over for a while. It refuses at once, so it would always have
// the fewest in flight and draw every request.
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
  // Running requests end as their engine ends them; no request moves any more.
  ~EngineSet() override;

  // Requests that start from now on may go to this engine too. There is no way out: an engine that left is one that is gone.
  void Add(std::shared_ptr<Client> engine);

  // UNAVAILABLE (gone, or older than min_version), RESOURCE_EXHAUSTED and NOT_FOUND (pinned version) reach the caller
  // only after every engine refused. The caller gets the last refusal.
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;

  // Adds up the counters of the engines that answer. The version is the oldest of theirs, and the held versions are those
  // of its engine. If none answers: the error of the last engine.
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
