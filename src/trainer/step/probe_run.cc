#include "trainer/step/probe_run.h"

#include <cstdint>
#include <string>

#include "base/log.h"
#include "base/work.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/pass/recorded_routes.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

// Returns the groups of probe calls to score together. fast: each call separately, as the engine ran it. exact: merged
// as in training, because merging must not change a bit.
std::vector<std::vector<int32_t>> ProbeLayout(const TrainerOptions& options, const std::vector<tree::CallPath>& calls) {
  if (options.numerics == kernels::Numerics::kExact) return {tree::OrderChainFirst(calls)};
  std::vector<std::vector<int32_t>> alone;
  for (int32_t call = 0; call < static_cast<int32_t>(calls.size()); ++call) alone.push_back({call});
  return alone;
}

}  // namespace

ProbeRun::ProbeRun(const TrainerOptions& options, const Policy& policy, const ProbeSource& source)
    : options_(options), policy_(policy) {
  if (options.probe_tokens <= 0 || source == nullptr) return;
  calls_ = std::async(std::launch::async, source, policy.version(), options.probe_tokens);
}

absl::Status ProbeRun::ScoreMerged(const std::vector<tree::CallPath>& calls, const std::vector<int32_t>& indices,
                                   LogprobGap& mismatch) const {
  INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, tree::PackForest(calls, indices));
  const RecordedRoutes routes(forest, calls, policy_.config(), options_.replay_routes);
  PassOptions pass = policy_.pass();
  pass.routes = &routes;
  const PassResult result = ScoreForest(policy_.model(), forest, calls, pass);
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const tree::CallPath& call = calls[static_cast<size_t>(forest.entries[i].call)];
    const auto offset = static_cast<size_t>(forest.entries[i].offset);
    if (OnPolicy(call, offset, policy_.version())) mismatch.Add(result.logprobs[i], call.logprobs[offset]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<tree::CallPath>> ProbeRun::AwaitCalls() {
  const base::WorkPart shown("probe: sampling by the engine");
  return calls_.get();
}

absl::Status ProbeRun::Score(LogprobGap& mismatch) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<tree::CallPath> calls, AwaitCalls());
  for (const tree::CallPath& call : calls) INGOT_RETURN_IF_ERROR(CheckCall(call, policy_.Limits(), true));
  const std::vector<std::vector<int32_t>> layout = ProbeLayout(options_, calls);
  for (size_t i = 0; i < layout.size(); ++i) {
    const base::WorkPart shown(absl::StrCat("probe, pass ", i + 1, " of ", layout.size()));
    INGOT_RETURN_IF_ERROR(ScoreMerged(calls, layout[i], mismatch));
  }
  return absl::OkStatus();
}

void ProbeRun::Finish(LogprobGap& mismatch) {
  if (!calls_.valid()) return;
  const int64_t version = policy_.version();
  const absl::Status scored = Score(mismatch);
  if (!scored.ok() || mismatch.abs_diff.count < options_.probe_tokens) {
    INGOT_LOG(warn, "the probe at version {} has only {} of {} tokens: {}", version, mismatch.abs_diff.count,
              options_.probe_tokens,
              scored.ok() ? "its source has no more tokens of that version" : std::string(scored.message()));
  }
  if (options_.numerics == kernels::Numerics::kExact && mismatch.abs_diff.max > 0) {
    INGOT_LOG(warn,
              "numerics is exact, but at version {}, a probe's log-prob differs from the engine's by {}: check whether "
              "the engine and the trainer run on machines with different instruction sets",
              version, mismatch.abs_diff.max);
  }
}

}  // namespace ingot::trainer
