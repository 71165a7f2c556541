// Several engines behind one client. A request goes to the engine with the fewest in flight from here; one that an
// engine refuses before its first chunk, for a cause that another engine may not have, goes to the next. An engine that
// is gone is put aside for a while: it refuses at once, would therefore always have the fewest in flight, and would
// draw every request.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "rollout/client.h"

namespace ingot::rollout {

class EngineSet final : public Client {
 public:
  // At least one engine. `clock` outlives the set.
  EngineSet(std::vector<std::shared_ptr<Client>> engines, const base::Clock& clock);
  // Requests still running end with what their engine's own end gives them; none moves any more.
  ~EngineSet() override;

  // UNAVAILABLE (gone, or behind min_version), RESOURCE_EXHAUSTED and NOT_FOUND (pinned version) reach the caller only
  // once every engine has refused; of several refusals it is the last.
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;

  // Adds up the counters of the engines that answer; the version is the oldest that any of them is at. An error: that
  // of the last engine, as none answered.
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

 private:
  class State;
  class Call;
  class Handle;

  const std::vector<std::shared_ptr<Client>> engines_;
  const std::shared_ptr<State> state_;
};

}  // namespace ingot::rollout
