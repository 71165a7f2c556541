#include "trainer/step/batch_gradient.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/work.h"
#include "trainer/pass/gradient_faults.h"
#include "trainer/pass/step_bound.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

constexpr size_t kMaxNamed = 5;  // maximum number of calls to report for a gradient that is not finite

}  // namespace

BatchGradient::BatchGradient(const TrainerOptions& options, Policy& policy, const StepExchanges& exchanges,
                             const base::Clock& clock, const PreparedBatch& batch, const tree::PackedForest& forest,
                             StepLoss& loss)
    : options_(options),
      policy_(policy),
      exchanges_(exchanges),
      clock_(clock),
      batch_(batch),
      forest_(forest),
      loss_(loss),
      routes_(forest, batch.calls, policy.config(), options.replay_routes) {}

PassOptions BatchGradient::Pass() const {
  PassOptions options = policy_.pass();
  options.routes = &routes_;
  return options;
}

StepTally BatchGradient::Accumulate(const PolicyReader& reader, bool variance, DraftPass* draft) {
  StepTally tally;
  Score(tally);
  std::optional<UpdateVariance> measured;
  if (variance) {
    const auto measuring = clock_.Now();
    measured = MeasureGroups();
    tally.plain.variance_seconds = Seconds(clock_.Now() - measuring);
  }
  AddShare(reader, draft, tally);
  if (measured) tally.plain.spread = measured->Compare(policy_.optimizer().Gradients());
  tally.sums = loss_.sums();
  tally.non_finite_calls = loss_.non_finite_calls();
  exchanges_.SumTallies(batch_, tally);
  if (experts_) exchanges_.SumExperts(*experts_);
  return tally;
}

void BatchGradient::Score(StepTally& tally) {
  const base::WorkPart shown("scoring before the gradient");
  const ProcessSeconds start = ClockNow();
  const double gathered = policy_.gather_seconds();
  StepTally::Plain& plain = tally.plain;
  plain.scorings = ScoreBefore(policy_.model(), policy_.reference().model(), forest_, batch_.calls, loss_, Pass());
  plain.pass_seconds = ClockNow().wall - start.wall;
  plain.busy_seconds = plain.pass_seconds - (policy_.gather_seconds() - gathered);
  if (!loss_.needs_scores()) return;
  exchanges_.ShareScores(forest_, loss_);
  loss_.Fix(/*counts=*/exchanges_.leads());
}

BatchGradient::Slots BatchGradient::RunSlots(const tree::PackedForest& forest, StepLoss& loss, PassOptions options) {
  Slots run;
  int64_t slots = 0;
  const auto end_slot = [&] {
    const ProcessSeconds ended = ClockNow();
    policy_.optimizer().EndSlot();
    run.exchanging += ClockNow().wall - ended.wall;
    ++slots;
  };
  options.part_done = end_slot;
  const int64_t agreed = exchanges_.AgreeOnSlots(forest, options.part_tokens);
  const ProcessSeconds start = ClockNow();
  const double gathered = policy_.gather_seconds();
  run.pass = AccumulateGradients(policy_.model(), forest, batch_.calls, loss, options);
  while (slots < agreed) end_slot();
  run.exchanging += policy_.gather_seconds() - gathered;
  run.seconds = ClockNow().wall - start.wall;
  return run;
}

UpdateVariance BatchGradient::MeasureGroups() {
  const base::WorkPart shown("update variance");
  UpdateVariance variance(batch_, options_.seed, policy_.version());
  for (const int32_t group : variance.groups()) {
    std::vector<int32_t> calls = forest_.call_indices;
    std::erase_if(calls, [&](int32_t call) { return batch_.calls[static_cast<size_t>(call)].group != group; });
    const tree::PackedForest forest = OrThrow(PackBatch(batch_, calls));
    StepLoss loss = loss_;  // the sums of this copy are not the step's
    const RecordedRoutes routes(forest, batch_.calls, policy_.config(),
                                options_.replay_routes);  // for this group's rows
    PassOptions options = policy_.pass();
    options.routes = &routes;
    RunSlots(forest, loss, options);
    variance.AddGroup(policy_.optimizer().Gradients());
    policy_.optimizer().ZeroGrad();
  }
  return variance;
}

void BatchGradient::AddShare(const PolicyReader& reader, DraftPass* draft, StepTally& tally) {
  const base::WorkPart shown("gradient");
  const model::ModelConfig& config = policy_.config();
  PassOptions options = Pass();
  if (config.experts.count > 0) {
    experts_.emplace(forest_, config.num_hidden_layers, options_.expert_balance);
    experts_->SetTotal(exchanges_.Sum(experts_->calls_through()));
    options.experts = &*experts_;
  }
  options.read_policy = reader;
  if (draft != nullptr) draft->Observe(options);
  const Slots run = RunSlots(forest_, loss_, options);
  const PassResult& result = run.pass;
  StepTally::Plain& plain = tally.plain;
  plain.pass_seconds += run.seconds;
  plain.busy_seconds += run.seconds - run.exchanging;
  plain.longest_busy_seconds = plain.busy_seconds;
  plain.work = WorkOf(config, forest_, result, options);
  plain.unmerged = UnmergedWork(config, batch_.calls, forest_.call_indices, std::ssize(forest_.entries));
  plain.loss = result.loss;
  plain.merged_tokens = plain.computed_tokens = static_cast<int64_t>(forest_.size());
  plain.parts = result.parts;
  plain.route_conflicts = routes_.conflicts();
  for (size_t i = 0; i < forest_.entries.size(); ++i) {
    const tree::LossEntry& entry = forest_.entries[i];
    const tree::CallPath& call = batch_.calls[static_cast<size_t>(entry.call)];
    const auto offset = static_cast<size_t>(entry.offset);
    plain.entropy.Add(result.entropy[i]);
    plain.offpolicy.Add(result.logprobs[i], call.logprobs[offset]);
    if (OnPolicy(call, offset, policy_.version())) plain.packed.Add(result.logprobs[i], call.logprobs[offset]);
  }
}

std::string BatchGradient::FindFault(const StepTally& tally, double grad_norm) {
  if (std::isfinite(tally.plain.loss) && std::isfinite(grad_norm) && tally.non_finite_calls.empty()) return "";
  const base::WorkPart shown("search for non-finite numbers");
  std::string tensors = NonFiniteTensors(policy_.model(), policy_.optimizer().Gradients());
  // Checks each call separately, because in a merged forest, a non-finite number spreads to rows that must not see it.
  std::vector<int32_t> own = forest_.call_indices;
  std::sort(own.begin(), own.end());
  const auto suspected = [&](int32_t call) {
    const std::vector<int32_t>& found = tally.non_finite_calls;
    return found.empty() || std::find(found.begin(), found.end(), call) != found.end();
  };
  std::erase_if(own, [&](int32_t call) { return !suspected(call); });
  std::vector<int32_t> calls =
      CallsWithoutFiniteGradient(policy_.model(), batch_, own, loss_, policy_.pass(), kMaxNamed);
  exchanges_.CollectFaults(tensors, calls);
  return absl::StrCat("loss ", tally.plain.loss, ", gradient norm ", grad_norm, ": not finite for ",
                      NameCalls(batch_, calls), tensors.empty() ? "" : "; ", tensors);
}

}  // namespace ingot::trainer
