#include "trainer/custom_loss/custom_objective.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "trainer/custom_loss/loss_graph.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

// The positions, within the entries, of the tokens that the function gets together.
using Positions = std::vector<size_t>;

at::Tensor Gather(std::span<const double> values, const Positions& positions) {
  at::Tensor gathered = at::empty({std::ssize(positions)}, at::TensorOptions(at::kDouble));
  double* to = gathered.mutable_data_ptr<double>();
  for (const size_t i : positions) *to++ = values[i];
  return gathered;
}

// Returns the numbers, renumbered from 0 in the order of their first tokens.
at::Tensor Renumbered(std::span<const int32_t> numbers, const Positions& positions) {
  std::map<int32_t, int64_t> known;
  at::Tensor renumbered = at::empty({std::ssize(positions)}, at::TensorOptions(at::kLong));
  int64_t* to = renumbered.mutable_data_ptr<int64_t>();
  for (const size_t i : positions) *to++ = known.try_emplace(numbers[i], std::ssize(known)).first->second;
  return renumbered;
}

LossInputs InputsOf(const LossEntries& e, const Positions& positions) {
  return {Gather(e.logprobs, positions),   Gather(e.recorded, positions),
          Gather(e.advantages, positions), at::ones({std::ssize(positions)}, at::TensorOptions(at::kBool)),
          Renumbered(e.calls, positions),  Renumbered(e.sequences, positions)};
}

void RequireShape(const at::Tensor& loss, int64_t tokens) {
  if (loss.dim() == 1 && loss.size(0) == tokens) return;
  OrThrow(
      absl::InvalidArgumentError(absl::StrCat("the loss of ", tokens, " tokens has ", loss.dim(), " dimensions and ",
                                              loss.numel(), " numbers, but must have the shape [T]")));
}

class CustomObjective final : public Objective {
 public:
  CustomObjective(LossGraph graph, const CustomLossOptions& options)
      : graph_(std::move(graph)), function_(options.function), by_call_(options.scope == "call") {}

  Scope scope() const override { return graph_.per_token() ? Scope::kToken : Scope::kBatch; }

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    const at::AutoGradMode history(true);
    double loss = 0;
    for (const Positions& positions : Seen(e)) loss += AddLoss(e, positions, derivative);
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    if (!graph_.has_metrics()) return;
    const at::NoGradGuard no_history;
    for (const Positions& positions : Seen(e)) {
      for (const auto& [name, value] : graph_.Run(InputsOf(e, positions)).metrics) {
        const at::Tensor numbers = value.to(at::kDouble).contiguous();
        MeanMax& mean = sums.means["actor/custom/" + name];
        const double* first = numbers.const_data_ptr<double>();
        for (int64_t i = 0; i < numbers.numel(); ++i) mean.Add(first[i]);
      }
    }
  }

  std::string Describe() const override {
    const char* seen = graph_.per_token() ? "each token separately" : by_call_ ? "the tokens of a call" : "the batch";
    return absl::StrCat("custom, ", function_, " over ", seen);
  }

 private:
  // Returns the groups of tokens that the function gets together. A call's entries are in offset order.
  std::vector<Positions> Seen(const LossEntries& e) const {
    Positions all(e.logprobs.size());
    std::iota(all.begin(), all.end(), size_t{0});
    if (all.empty()) return {};
    if (!by_call_ || graph_.per_token()) return {all};
    std::map<int32_t, Positions> calls;
    for (const size_t i : all) calls[e.calls[i]].push_back(i);
    std::vector<Positions> seen;
    for (auto& [call, positions] : calls) seen.push_back(std::move(positions));
    return seen;
  }

  double AddLoss(const LossEntries& e, const Positions& positions, std::span<double> derivative) const {
    LossInputs inputs = InputsOf(e, positions);
    inputs.logprobs.requires_grad_(true);
    const at::Tensor losses = graph_.Run(inputs).loss;
    RequireShape(losses, std::ssize(positions));
    const at::Tensor loss = (losses.to(at::kDouble) * Gather(e.weights, positions)).sum();
    if (!loss.requires_grad()) {
      OrThrow(
          absl::InvalidArgumentError("the loss does not depend on logprobs, so the policy would not learn anything: "
                                     "use logprobs without detach()"));
    }
    torch::autograd::backward({loss});
    if (const at::Tensor& gradient = inputs.logprobs.grad(); gradient.defined()) {
      const double* from = gradient.const_data_ptr<double>();
      for (const size_t i : positions) derivative[i] += *from++;
    }
    return loss.item<double>();
  }

  const LossGraph graph_;
  const std::string function_;
  const bool by_call_;
};

// Made-up tokens: ratios from 0.5 to 2, advantages of both signs, and calls of one to four tokens.
struct Trial {
  std::vector<double> logprobs{-0.1, -1.2, -2.5, -0.4, -3.0, -0.7, -1.6, -0.2};
  std::vector<double> recorded{-0.1, -0.9, -3.1, -0.5, -2.4, -0.7, -1.5, -0.25};
  std::vector<double> advantages{1, 1, 1, 1, -0.5, -0.5, -0.5, 0};
  std::vector<double> weights = std::vector<double>(8, 0.125);
  std::vector<int32_t> calls{0, 0, 0, 0, 1, 2, 2, 3}, episodes{0, 0, 0, 0, 1, 1, 1, 2};

  LossEntries entries() const {
    LossEntries made{logprobs, recorded, {}, advantages, weights, episodes, 3, {}};
    made.calls = calls;
    return made;
  }
};

absl::Status Try(const Objective& objective) {
  const Trial trial;
  std::vector<double> derivative(trial.logprobs.size(), 0.0);
  const double loss = objective.Loss(trial.entries(), derivative);
  MetricSums sums;
  objective.Tally(trial.entries(), sums);
  if (!std::isfinite(loss)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the loss is ", loss,
                     " on trial tokens, some of which have advantage 0 or are the only token in their call: add a "
                     "small number to the divisor, or use torch.where"));
  }
  for (size_t i = 0; i < derivative.size(); ++i) {
    if (std::isfinite(derivative[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the derivative with respect to a log-prob is ", derivative[i], " on trial tokens (logprob ", trial.logprobs[i],
        ", rollout_logprob ", trial.recorded[i], ", advantage ", trial.advantages[i],
        "), although the loss is finite: torch.where also differentiates the branch that it does not select"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Objective>> MakeCustomObjective(const TrainerOptions& options) {
  const CustomLossOptions& custom = options.custom;
  if (custom.graph.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("trainer.custom.function ", custom.function, " has not been traced"));
  }
  const std::string name = absl::StrCat("trainer.custom.function ", custom.function);
  return AtTorchEdge(name, [&]() -> absl::StatusOr<std::unique_ptr<Objective>> {
    absl::StatusOr<LossGraph> graph = LossGraph::Parse(custom.graph);
    if (!graph.ok()) return base::Annotate(graph.status(), name);
    auto objective = std::make_unique<CustomObjective>(*std::move(graph), custom);
    INGOT_RETURN_IF_ERROR(base::Annotate(Try(*objective), name));
    return objective;
  });
}

}  // namespace ingot::trainer
