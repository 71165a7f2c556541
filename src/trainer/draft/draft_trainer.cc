#include "trainer/draft/draft_trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "base/work.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

constexpr char kSteps[] = "steps", kPublished[] = "published.", kShadow[] = "shadow.";
constexpr uint64_t kHeadStream = 0x64726166;    // separates the head's seeds from the policy's
constexpr uint64_t kWarmupStream = 0x7761726d;  // separates the warm-up's seeds from the steps'

OptimizerOptions OptimizerOf(const DraftOptions& options) {
  return {.learning_rate = options.learning_rate, .grad_clip_norm = options.grad_clip_norm};
}

DraftOptions WarmupOf(DraftOptions options) {
  options.loss = "kl";
  return options;
}

// Returns copies that training changes.
model::DraftTensors Trainable(const model::DraftTensors& tensors, const at::Device& device, at::ScalarType type) {
  model::DraftTensors copies;
  for (const auto& [name, tensor] : tensors) {
    const bool ids = name == model::kDraftIds;
    copies[name] = tensor.detach().to(device, ids ? at::kFloat : type, /*non_blocking=*/false, /*copy=*/true);
    copies[name].requires_grad_(!ids);
  }
  return copies;
}

std::map<std::string, at::Tensor> TrainedOf(const model::DraftTensors& tensors) {
  std::map<std::string, at::Tensor> trained;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.requires_grad()) trained[name] = tensor;
  }
  return trained;
}

absl::Status CopyInto(const std::map<std::string, at::Tensor>& from, const std::string& name, const at::Tensor& to) {
  const auto found = from.find(name);
  if (found == from.end()) return absl::InvalidArgumentError("the draft head's state lacks " + name);
  if (found->second.sizes() != to.sizes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " in the draft head's state has another shape; draft.vocabulary may have changed"));
  }
  const at::NoGradGuard no_history;
  at::Tensor(to).copy_(found->second);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DraftTrainer>> DraftTrainer::Create(const DraftOptions& options,
                                                                   const model::Transformer& policy,
                                                                   const model::DraftTensors& tensors, uint64_t seed,
                                                                   int64_t logits_chunk_elements,
                                                                   const base::Clock& clock) {
  const at::Tensor& like = policy.head();
  const uint64_t own = base::DeriveSeed(seed, kHeadStream);
  const model::DraftTensors start =
      tensors.empty() ? model::DraftHead::Init(policy.config(), options.vocabulary, own, like.scalar_type()) : tensors;
  std::unique_ptr<DraftTrainer> trainer(new DraftTrainer(
      options, policy, Trainable(start, like.device(), like.scalar_type()), own, logits_chunk_elements, clock));
  INGOT_RETURN_IF_ERROR(trainer->UseWeights());
  trainer->head_.reset();
  trainer->PublishFirst();
  return trainer;
}

DraftTrainer::DraftTrainer(const DraftOptions& options, const model::Transformer& policy, model::DraftTensors tensors,
                           uint64_t seed, int64_t logits_chunk_elements, const base::Clock& clock)
    : options_(options),
      warmup_options_(WarmupOf(options)),
      policy_(policy),
      seed_(seed),
      logits_chunk_elements_(logits_chunk_elements),
      clock_(clock),
      tensors_(std::move(tensors)),
      optimizer_(OptimizerOf(options), TrainedOf(tensors_)) {}

absl::Status DraftTrainer::UseWeights() {
  INGOT_ASSIGN_OR_RETURN(head_, model::DraftHead::Create(tensors_, policy_));
  return absl::OkStatus();
}

DraftPass& DraftTrainer::BeginPass(const DraftOptions& options, const tree::PackedForest& forest,
                                   std::span<const tree::CallPath> calls, uint64_t stream) {
  Drop();
  OrThrow(UseWeights());
  return pass_.emplace(options, *head_, policy_, forest, calls, logits_chunk_elements_, stream);
}

DraftPass& DraftTrainer::Begin(const tree::PackedForest& forest, std::span<const tree::CallPath> calls, int64_t step) {
  return BeginPass(options_, forest, calls, base::DeriveSeed(seed_, static_cast<uint64_t>(step)));
}

DraftPass& DraftTrainer::BeginWarmup(const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
                                     int64_t step) {
  const uint64_t seed = base::DeriveSeed(seed_, kWarmupStream);
  return BeginPass(warmup_options_, forest, calls, base::DeriveSeed(seed, static_cast<uint64_t>(step)));
}

void DraftTrainer::Learn(StepMetrics& metrics) {
  const base::WorkPart shown("draft head");
  const auto start = clock_.Now();
  result_ = pass_->Run();
  pass_.reset();
  optimizer_.CollectGradients();
  metrics["draft/loss"] = result_.loss;
  metrics["draft/overlap"] = result_.overlap;
  metrics["draft/tokens"] = result_.tokens;
  metrics["draft/seconds"] = Seconds(clock_.Now() - start);
}

void DraftTrainer::Apply(StepMetrics& metrics) {
  const double norm = optimizer_.GradNorm();
  const bool finite = std::isfinite(result_.loss) && std::isfinite(norm);
  metrics["draft/skipped"] = finite ? 0 : 1;
  if (finite) {
    metrics["draft/grad_norm"] = norm;
    optimizer_.Step(options_.learning_rate, norm);
  } else {
    INGOT_LOG(warn, "the draft head's step is skipped: loss {}, gradient norm {}", result_.loss, norm);
    for (const char* name : {"draft/loss", "draft/overlap"}) metrics.erase(name);
  }
  Drop();
}

void DraftTrainer::Drop() {
  pass_.reset();
  head_.reset();
  optimizer_.ZeroGrad();
}

bool DraftTrainer::PublishIfDue(int64_t version) {
  if (version % options_.publish_every != 0) return false;
  Publish();
  return true;
}

void DraftTrainer::Publish() {
  const at::NoGradGuard no_history;
  published_.clear();
  for (const auto& [name, tensor] : tensors_) published_[name] = tensor.detach().clone();
}

void DraftTrainer::PublishFirst() {
  Publish();
  if (options_.shadow) shadow_ = published_;  // which the next Publish replaces
}

model::DraftTensors DraftTrainer::published() const {
  model::DraftTensors tensors = published_;
  tensors.merge(model::ShadowOf(shadow_));
  return tensors;
}

model::DraftTensors DraftTrainer::tensors() const {
  model::DraftTensors tensors;
  for (const auto& [name, tensor] : tensors_) tensors[name] = tensor.detach();
  return tensors;
}

std::map<std::string, at::Tensor> DraftTrainer::State() const {
  std::map<std::string, at::Tensor> state = optimizer_.State();
  for (const auto& [name, tensor] : published_) state[kPublished + name] = tensor;
  for (const auto& [name, tensor] : shadow_) state[kShadow + name] = tensor;
  state[kSteps] = at::scalar_tensor(optimizer_.steps(), at::kLong).reshape({1});
  return state;
}

absl::Status DraftTrainer::Restore(const model::DraftTensors& tensors, const std::map<std::string, at::Tensor>& state) {
  for (const auto& [name, tensor] : tensors_) {
    INGOT_RETURN_IF_ERROR(CopyInto(tensors, name, tensor));
    INGOT_RETURN_IF_ERROR(CopyInto(state, kPublished + name, published_.at(name)));
  }
  for (const auto& [name, tensor] : optimizer_.State()) INGOT_RETURN_IF_ERROR(CopyInto(state, name, tensor));
  INGOT_RETURN_IF_ERROR(RestoreShadow(state));
  const at::Tensor steps = at::zeros({1}, at::kLong);
  INGOT_RETURN_IF_ERROR(CopyInto(state, kSteps, steps));
  optimizer_.SetSteps(steps.item<int64_t>());
  return UseWeights();
}

absl::Status DraftTrainer::RestoreShadow(const std::map<std::string, at::Tensor>& state) {
  if (shadow_.empty()) return absl::OkStatus();
  const bool saved = state.contains(kShadow + shadow_.begin()->first);
  if (!saved) INGOT_LOG(warn, "the checkpoint has no shadow of the first version's draft head: its own head is used");
  for (auto& [name, tensor] : shadow_) {
    tensor = published_.at(name).clone();
    if (saved) INGOT_RETURN_IF_ERROR(CopyInto(state, kShadow + name, tensor));
  }
  return absl::OkStatus();
}

}  // namespace ingot::trainer
