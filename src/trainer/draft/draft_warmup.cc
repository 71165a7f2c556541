#include "trainer/draft/draft_warmup.h"

#include <map>
#include <set>

#include "trainer/batch.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

// Returns the calls of one step's conversations, with their episodes numbered from 0.
std::vector<tree::CallPath> CallsOf(const std::vector<tree::CallPath>& calls,
                                    const std::vector<int32_t>& conversations) {
  std::map<int32_t, int32_t> places;
  for (size_t i = 0; i < conversations.size(); ++i) places[conversations[i]] = static_cast<int32_t>(i);
  std::vector<tree::CallPath> picked;
  for (const tree::CallPath& call : calls) {
    const auto place = places.find(call.episode);
    if (place == places.end()) continue;
    picked.push_back(call);
    picked.back().episode = place->second;
  }
  return picked;
}

absl::StatusOr<StepMetrics> RunStep(const Policy& policy, DraftTrainer& draft, const std::vector<tree::CallPath>& calls,
                                    int64_t step) {
  INGOT_ASSIGN_OR_RETURN(const PreparedBatch batch, PrepareSft(calls, policy.Limits()));
  INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, PackBatch(batch));
  StepMetrics metrics;
  INGOT_RETURN_IF_ERROR(AtTorchEdge("the draft head's warm-up", [&] {
    PassOptions pass = policy.pass();
    draft.BeginWarmup(forest, batch.calls, step).Observe(pass);
    ScoreForest(policy.model(), forest, batch.calls, pass);
    draft.Learn(metrics);
    draft.Apply(metrics);
    return absl::OkStatus();
  }));
  return metrics;
}

}  // namespace

absl::Status WarmUpDraft(const TrainerOptions& options, const Policy& policy, DraftTrainer& draft,
                         const std::vector<tree::CallPath>& calls, const SftObserver& observer) {
  std::set<int32_t> numbers;
  for (const tree::CallPath& call : calls) numbers.insert(call.episode);
  const std::vector<int32_t> conversations(numbers.begin(), numbers.end());
  if (conversations.empty()) return absl::OkStatus();
  for (int64_t step = 0; step < options.draft.warmup_steps; ++step) {
    std::vector<int32_t> chosen;
    for (const int64_t place : SftBatch(options.sft, std::ssize(conversations), options.seed, step)) {
      chosen.push_back(conversations[static_cast<size_t>(place)]);
    }
    SftReport report{step, options.draft.warmup_steps, {}};
    INGOT_ASSIGN_OR_RETURN(report.metrics, RunStep(policy, draft, CallsOf(calls, chosen), step));
    if (observer) INGOT_RETURN_IF_ERROR(observer(report));
  }
  draft.PublishFirst();
  return absl::OkStatus();
}

}  // namespace ingot::trainer
