#include "trainer/policy/policy.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "trainer/parameter_memory.h"
#include "trainer/policy/rank_changes.h"
#include "trainer/torch_edge.h"
#include "trainer/weights_of.h"

namespace ingot::trainer {
namespace {

std::unique_ptr<LayerShards> Shards(const TrainerOptions& options, const model::Transformer& model, Ranks* ranks) {
  if (ranks == nullptr || options.sharding != "layers") return nullptr;
  return std::make_unique<LayerShards>(model.config(), model.parameters().tensors(), *ranks);
}

using RoundedParameters = std::map<std::string, RoundedParameter>;

// Moves the marks of two-byte words to `changes`. Returns the patches of the parameters with values, which refer to both.
std::map<std::string, weights::TensorPatch> MoveMarks(RoundedParameters& rounded, weights::Changes& changes) {
  std::map<std::string, weights::TensorPatch> patches;
  for (auto& [name, parameter] : rounded) {
    const weights::ChangeMask* marks = &parameter.changes;
    if (parameter.of_words) marks = &(changes.masks[name] = std::move(parameter.changes));
    if (parameter.values.has_value()) patches[name] = {marks->entries(), *parameter.values};
  }
  return patches;
}

// Returns DATA_LOSS if a tensor that was made from its changes differs from the parameter.
absl::Status CheckPatched(const weights::Snapshot& snapshot, const RoundedParameters& rounded) {
  for (int i = 0; i < snapshot.manifest().tensors_size(); ++i) {
    const v1::TensorInfo& tensor = snapshot.manifest().tensors(i);
    const auto found = rounded.find(tensor.name());
    if (found == rounded.end() || !found->second.values.has_value() || found->second.checksum == 0) continue;
    if (found->second.checksum != tensor.checksum()) {
      return absl::DataLossError(absl::StrCat("the marked changes of parameter '", tensor.name(),
                                              "' do not give its weights in version ", snapshot.version(),
                                              ": a change was not marked, or memory is damaged"));
    }
  }
  return absl::OkStatus();
}

PassOptions PassesOf(const TrainerOptions& options, LayerWeights* weights) {
  PassOptions pass = PassOptionsOf(options);
  pass.weights = weights;
  return pass;
}

}  // namespace

Policy::Policy(const TrainerOptions& options, model::Transformer model, Ranks* ranks)
    : options_(options),
      ranks_(ranks),
      model_(std::move(model)),
      shards_(Shards(options, model_, ranks)),
      pass_(PassesOf(options, shards_.get())),
      reference_(options, model_.config()) {
  UseOptimizer(options.optimizer);
}

TokenLimits Policy::Limits() const {
  TokenLimits limits(config().vocab_size, config().max_position_embeddings);
  limits.experts = config().experts.count;
  limits.experts_per_token = config().experts.per_token;
  limits.routes_per_token = config().routes_per_token();
  return limits;
}

absl::Status Policy::AdvanceUnchanged() {
  if (divided() && snapshot_ != nullptr) {  // the same weights under a new number
    std::vector<weights::TensorView> views;
    for (size_t i = 0; i < snapshot_->size(); ++i) views.push_back(snapshot_->view(i));
    INGOT_ASSIGN_OR_RETURN(snapshot_, weights::Snapshot::Copy(version_ + 1, views));
    if (snapshot_->checksum() == marked_from_) base_ = snapshot_;
  } else {
    snapshot_ = nullptr;
  }
  ++version_;
  return absl::OkStatus();
}

void Policy::UseOptimizer(const OptimizerOptions& options) {
  std::map<std::string, at::Tensor> trained;
  for (const auto& [name, tensor] : parameters().tensors()) {
    if (tensor.requires_grad()) trained[name] = tensor;
  }
  optimizer_.emplace(options, trained, ranks_, /*publishes=*/shards_ == nullptr);
  optimizer_->SendChanges(!in_parts_);
  marked_from_ = part_marked_from_ = 0;
}

absl::Status Policy::LoadOptimizer(const std::string& checkpoint_path, const CheckpointContents& contents) {
  INGOT_RETURN_IF_ERROR(
      ReadOptimizer(checkpoint_path, contents.optimizer_shards, optimizer_->State(), /*all=*/ranks_ == nullptr));
  optimizer_->SetSteps(contents.optimizer_steps);
  return absl::OkStatus();
}

void Policy::LoadParameters(const model::Parameters& parameters) {
  const at::NoGradGuard no_history;
  for (const auto& [name, tensor] : model_.parameters().tensors()) {
    Allocate(tensor);  // a version may share its current memory
    tensor.copy_(parameters.at(name));
  }
  frozen_.clear();
  marked_from_ = part_marked_from_ = 0;
}

void Policy::BeginUpdate() {
  snapshot_ = nullptr;
  ReleaseLayer();
}

void Policy::Divide(bool snapshot) {
  if (shards_ == nullptr || divided()) return;
  // A skipped step gives the snapshot a new number.
  if (snapshot && ranks_->leads() && !in_parts_) OrThrow(TakeSnapshot().status());
  shards_->Divide();
}

void Policy::Unite() {
  if (!divided()) return;
  OrThrow(ranks_->Agree(absl::OkStatus()));
  OrThrow(ranks_->BreakUnless([&] { return shards_->Unite(); }));
}

void Policy::ReleaseLayer() {
  if (shards_ != nullptr) shards_->Release();
}

std::map<std::string, at::Tensor> Policy::OwnParameters() const {
  std::map<std::string, at::Tensor> own = shards_ == nullptr ? optimizer_->Owned() : shards_->Owned();
  if (!ranks_->leads()) return own;
  for (const auto& [name, tensor] : parameters().tensors()) {
    const bool owned = shards_ == nullptr ? tensor.requires_grad() : shards_->Divides(name);
    if (!owned) own[name] = tensor;
  }
  return own;
}

void Policy::PublishInParts(bool in_parts) {
  in_parts_ = in_parts;
  snapshot_ = nullptr;
  optimizer_->SendChanges(!in_parts);
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Policy::TakeSnapshot() {
  if (snapshot_ != nullptr) return snapshot_;
  if (divided()) return absl::InternalError("only rank 0 has the snapshot of sharded parameters");
  std::map<std::string, at::Tensor> all = parameters().tensors();
  all.insert(carried_.begin(), carried_.end());
  INGOT_ASSIGN_OR_RETURN(snapshot_, Take(all, marked_from_));
  if (shards_ == nullptr) ShareFrozen(*snapshot_);  // if divided, most of the base's memory is freed
  return snapshot_;
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Policy::TakeOwn() {
  INGOT_ASSIGN_OR_RETURN(auto own, Take(OwnParameters(), part_marked_from_));
  ShareFrozen(*own);
  return own;
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Policy::Take(
    const std::map<std::string, at::Tensor>& parameters, uint64_t& marked_from) {
  const std::shared_ptr<const weights::Snapshot> base = BaseOf(marked_from);
  INGOT_ASSIGN_OR_RETURN(RoundedParameters rounded, AtTorchEdge(absl::StrCat("the changes of version ", version_),
                                                                [&]() -> absl::StatusOr<RoundedParameters> {
                                                                  return TakeRounded(base != nullptr);
                                                                }));
  std::shared_ptr<weights::Changes> changes;
  KnownTensors known;
  if (marked_from != 0) {
    changes = std::make_shared<weights::Changes>(marked_from);
    const auto patches = MoveMarks(rounded, *changes);
    if (base != nullptr) known = Patched(*base, patches);
  }
  marked_from_ = part_marked_from_ = 0;
  INGOT_ASSIGN_OR_RETURN(auto taken, SnapshotOf(version_, parameters, CopiesInto(std::move(changes)), rounded, known));
  INGOT_RETURN_IF_ERROR(CheckPatched(*taken, rounded));
  marked_from = taken->checksum();
  base_ = taken;
  return taken;
}

std::shared_ptr<const weights::Snapshot> Policy::BaseOf(uint64_t marked_from) const {
  std::shared_ptr<const weights::Snapshot> base = base_.lock();
  return base != nullptr && marked_from != 0 && base->checksum() == marked_from ? base : nullptr;
}

void Policy::Carry(model::DraftTensors draft) {
  carried_ = std::move(draft);
  snapshot_ = nullptr;
}

void Policy::GatherSnapshot(int64_t version) {
  if (!divided() || in_parts_) return;
  optimizer_->ZeroGrad();  // its gradients are no longer needed and take up memory
  OrThrow(ranks_->Agree(absl::OkStatus()));
  OrThrow(ranks_->BreakUnless([&]() -> absl::Status {
    const std::shared_ptr<const weights::Snapshot> base = ranks_->leads() ? BaseOf(marked_from_) : nullptr;
    INGOT_ASSIGN_OR_RETURN(const std::string known, ranks_->BroadcastBytes(base != nullptr ? "base" : "", 0));
    INGOT_RETURN_IF_ERROR(!known.empty() && optimizer_->MarksAll() ? GatherFrom(base, version) : GatherWhole(version));
    if (!ranks_->leads()) return absl::OkStatus();
    marked_from_ = snapshot_->checksum();
    part_marked_from_ = 0;
    base_ = snapshot_;
    return absl::OkStatus();
  }));
}

absl::Status Policy::GatherFrom(const std::shared_ptr<const weights::Snapshot>& base, int64_t version) {
  const RoundedParameters own = optimizer_->TakeValues(/*gathers=*/true);
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_->GatherBytes(EncodeChanges(own), 0));
  if (!ranks_->leads()) return absl::OkStatus();
  RoundedParameters changed;
  for (const std::string& changes : all) INGOT_RETURN_IF_ERROR(DecodeChanges(changes, changed));
  auto changes = std::make_shared<weights::Changes>(base->checksum());
  std::map<std::string, weights::TensorPatch> patches = MoveMarks(changed, *changes);
  for (const auto& [name, tensor] : parameters().tensors()) {
    if (!shards_->Divides(name) || patches.contains(name)) continue;
    if (tensor.requires_grad() && tensor.numel() > 0) {
      return absl::InternalError(absl::StrCat("no rank sent the changes of parameter '", name, "'"));
    }
    patches[name] = {};
  }
  INGOT_ASSIGN_OR_RETURN(snapshot_, SnapshotOf(version, parameters().tensors(), CopiesInto(std::move(changes)), {},
                                               Patched(*base, patches)));
  return CheckPatched(*snapshot_, changed);
}

absl::Status Policy::GatherWhole(int64_t version) {
  INGOT_ASSIGN_OR_RETURN(auto gathered, shards_->Gather());
  optimizer_->TakeValues(/*gathers=*/false);
  if (!ranks_->leads()) return absl::OkStatus();
  for (const auto& [name, tensor] : parameters().tensors()) {
    if (!shards_->Divides(name)) gathered[name] = tensor;  // complete on every rank
  }
  INGOT_ASSIGN_OR_RETURN(snapshot_, SnapshotOf(version, gathered, CopiesInto(nullptr)));
  return absl::OkStatus();
}

weights::CopyOptions Policy::CopiesInto(std::shared_ptr<const weights::Changes> changes) {
  return {.threads = at::get_num_threads(), .buffers = &buffers_, .changes = std::move(changes)};
}

std::map<std::string, RoundedParameter> Policy::TakeRounded(bool gathers) {
  std::map<std::string, RoundedParameter> rounded = optimizer_->TakeRounded(gathers);
  for (const auto& [name, frozen] : frozen_) {
    const bool in_place = parameters().at(name).const_data_ptr() == frozen.memory.get();
    if (in_place || frozen.memory == nullptr) rounded[name] = frozen;
  }
  return rounded;
}

void Policy::ShareFrozen(const weights::Snapshot& snapshot) {
  for (size_t i = 0; i < snapshot.size(); ++i) {
    const weights::TensorView view = snapshot.view(i);
    if (view.role != v1::TENSOR_POLICY) continue;
    const at::Tensor& parameter = parameters().at(view.name);
    // A vector may be a router's bias, which changes without the optimizer.
    if (parameter.requires_grad() || parameter.dim() < 2) continue;
    if (!parameter.is_cpu()) {
      frozen_[view.name] = {.changes = {}, .values = std::vector<std::byte>()};
      continue;
    }
    if (!OwnsItsMemory(parameter)) continue;
    if (parameter.const_data_ptr() != view.bytes.data()) PointAt(parameter, view.owner);
    frozen_[view.name] = {.changes = {}, .memory = view.owner, .checksum = view.checksum};
  }
}

}  // namespace ingot::trainer
