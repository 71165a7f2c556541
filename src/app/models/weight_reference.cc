#include "app/models/weight_reference.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>

#include <map>
#include <string>
#include <utility>

#include "kernels/torch/softmax.h"
#include "kernels/torch/threads.h"
#include "model/transformer.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/torch_edge.h"
#include "trainer/weights_of.h"

namespace ingot::app {
namespace {

constexpr uint64_t kPerturbSeed = 20260;
constexpr double kPerturbShare = 0.5;   // of each number
constexpr double kPerturbZeros = 0.05;  // in place of a tensor of zeros
// Added to an adapter's second factor, which is zero at first and small for many steps. Such an adapter changes the
// weights by a share like that of kPerturbShare, so its log-probs differ by more than bf16 rounds.
constexpr double kPerturbFactor = 0.2;

// Returns the prompt as a call whose last id is the sampled one. Its log-prob needs the row before it.
tree::CallPath CallOf(const std::vector<int32_t>& prompt) {
  tree::CallPath call;
  call.context = tree::TokenPath(std::vector<int32_t>(prompt.begin(), prompt.begin() + 1));
  call.sampled.assign(prompt.begin() + 1, prompt.end());
  call.sampled.push_back(0);  // reads the row after the last id
  call.logprobs.assign(call.sampled.size(), 0);
  call.versions.assign(call.sampled.size(), 0);
  call.kv_mixed.assign(call.sampled.size(), 0);
  return call;
}

class TorchReference final : public engines::WeightReference {
 public:
  TorchReference(const model::ModelConfig& shape, int threads) : shape_(shape), threads_(threads) {}

  absl::StatusOr<std::vector<engines::PromptScores>> Score(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                           const std::vector<std::vector<int32_t>>& prompts) override {
    return trainer::AtTorchEdge("log-probs", [&]() -> absl::StatusOr<std::vector<engines::PromptScores>> {
      if (threads_ > 0) kernels::UseThreads(threads_);
      INGOT_ASSIGN_OR_RETURN(model::Parameters parameters,
                             model::Parameters::FromTensors(shape_, trainer::ParametersOf(snapshot).tensors()));
      INGOT_ASSIGN_OR_RETURN(const model::Transformer model,
                             model::Transformer::Create(shape_, std::move(parameters), rope_));
      rope_ = model.rope();
      std::vector<engines::PromptScores> all;
      for (const std::vector<int32_t>& prompt : prompts) {
        INGOT_ASSIGN_OR_RETURN(engines::PromptScores scores, ScoreOne(model, prompt));
        all.push_back(std::move(scores));
      }
      return all;
    });
  }

  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Perturb(
      const std::shared_ptr<const weights::Snapshot>& snapshot) override {
    return trainer::AtTorchEdge("other weights", [&]() -> absl::StatusOr<std::shared_ptr<const weights::Snapshot>> {
      at::Generator random = at::detail::createCPUGenerator(kPerturbSeed);
      std::map<std::string, at::Tensor> others;
      const model::Parameters parameters = trainer::ParametersOf(snapshot);
      for (const auto& [name, tensor] : parameters.tensors()) {
        const at::Tensor noise = at::empty(tensor.sizes(), tensor.options()).uniform_(-1, 1, random);
        if (name.ends_with(".lora_B.weight")) {
          others[name] = tensor + noise * kPerturbFactor;
          continue;
        }
        const bool zeros = tensor.count_nonzero().item<int64_t>() == 0;
        others[name] = zeros ? noise * kPerturbZeros : tensor * (noise * kPerturbShare + 1);
      }
      return trainer::SnapshotOf(snapshot->version(), others);
    });
  }

 private:
  // Scores only the prompt, summing in the same order as Ingot's engine.
  absl::StatusOr<engines::PromptScores> ScoreOne(const model::Transformer& model, const std::vector<int32_t>& prompt) {
    const std::vector<tree::CallPath> calls = {CallOf(prompt)};
    const std::vector<int32_t> indices = {0};
    INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, tree::PackForest(calls, indices));
    engines::PromptScores scores;
    trainer::PassOptions pass;
    pass.numerics = kernels::Numerics::kExact;
    pass.read_policy = [&](const kernels::Policy& policy, std::span<const tree::LossEntry> entries,
                           std::span<const int64_t> rows) {
      for (size_t i = 0; i < entries.size(); ++i) {
        if (static_cast<size_t>(entries[i].offset) + 1 < calls[0].sampled.size()) continue;
        const at::Tensor row = policy.LogSoftmaxOf(rows.subspan(i, 1)).to(at::kFloat).contiguous();
        scores.next.assign(row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel());
      }
    };
    const trainer::PassResult result = trainer::ScoreForest(model, forest, calls, pass);
    scores.logprobs.resize(prompt.size() - 1);
    for (size_t i = 0; i < forest.entries.size(); ++i) {
      const auto offset = static_cast<size_t>(forest.entries[i].offset);
      if (offset < scores.logprobs.size()) scores.logprobs[offset] = static_cast<float>(result.logprobs[i]);
    }
    return scores;
  }

  const model::ModelConfig shape_;
  const int threads_;
  std::shared_ptr<const model::RopeTables> rope_;
};

}  // namespace

std::unique_ptr<engines::WeightReference> NewWeightReference(const model::ModelConfig& shape, int threads) {
  return std::make_unique<TorchReference>(shape, threads);
}

}  // namespace ingot::app
