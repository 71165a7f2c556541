#include "trainer/adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "kernels/torch/threads.h"
#include "trainer/device_checksums.h"
#include "trainer/parameter_memory.h"
#include "trainer/torch_edge.h"
#include "weights/tensor_checksum.h"

namespace ingot::trainer {
namespace {

// Returns whether updates mark the changed elements of this parameter.
bool Marks(const at::Tensor& parameter) {
  return AdamW::MarksType(parameter) && parameter.numel() > 0 && OwnsItsMemory(parameter);
}
bool MarksOnHost(const at::Tensor& parameter) { return parameter.is_cpu() && Marks(parameter); }

// Returns the marked elements of a parameter on the CPU, in order.
std::vector<std::byte> ValuesOf(const at::Tensor& parameter, const weights::ChangeMask& changes) {
  const auto* const data = static_cast<const std::byte*>(parameter.const_data_ptr());
  const int64_t bytes = parameter.element_size();
  std::vector<std::byte> values;
  for (size_t e = 0; e < changes.entries().size(); ++e) {
    for (uint64_t bits = changes.entries()[e]; bits != 0; bits &= bits - 1) {
      const int64_t word = static_cast<int64_t>(e) * weights::ChangeMask::kEntryWords + std::countr_zero(bits);
      values.insert(values.end(), data + word * bytes, data + (word + 1) * bytes);
    }
  }
  return values;
}

}  // namespace

bool AdamW::MarksType(const at::Tensor& parameter) {
  const at::ScalarType type = parameter.scalar_type();
  return type == at::kBFloat16 || (type == at::kFloat && !parameter.is_cpu());
}

std::map<std::string, RoundedParameter> TakeMarked(const std::map<std::string, kernels::MarkedTensor>& marked) {
  std::vector<kernels::MarkedTensor> tensors;
  for (const auto& [name, tensor] : marked) tensors.push_back(tensor);
  std::vector<kernels::GatheredChanges> gathered = kernels::GatherChanges(tensors);
  std::map<std::string, at::Tensor> elements;
  for (const auto& [name, tensor] : marked) elements[name] = tensor.elements;
  const std::map<std::string, uint64_t> checksums = ChecksumsOnDevice(elements);
  std::map<std::string, RoundedParameter> all;
  size_t i = 0;
  for (const auto& [name, tensor] : marked) {
    kernels::GatheredChanges& changes = gathered[i++];
    all[name] = {.changes = {tensor.elements.numel(), std::move(changes.marks)},
                 .values = std::move(changes.values),
                 .of_words = tensor.elements.element_size() == 2,
                 .checksum = checksums.at(name)};
  }
  for (kernels::MarkedTensor& tensor : tensors) tensor.marks.zero_();
  return all;
}

AdamW::AdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters) : options_(options) {
  const at::NoGradGuard no_history;
  for (const auto& [name, parameter] : parameters) {
    names_.push_back(name);
    parameters_.push_back(parameter);
    const bool wide = parameter.scalar_type() == at::kFloat || parameter.scalar_type() == at::kDouble;
    master_.push_back(wide ? parameter : parameter.to(at::kFloat));
    exp_avg_.push_back(at::zeros_like(master_.back()).requires_grad_(false));
    exp_avg_sq_.push_back(at::zeros_like(master_.back()).requires_grad_(false));
    collected_.emplace_back();
    marked_.emplace_back().taken = MayBeShared(parameter);  // by a version taken from an earlier optimizer
    if (parameter.dim() >= 2) decayed_.push_back(master_.back());
  }
}

void AdamW::CollectGradients() {
  const at::NoGradGuard no_history;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (master_[i].is_same(parameters_[i]) || !parameters_[i].grad().defined()) continue;
    if (collected_[i].defined()) {
      collected_[i].add_(parameters_[i].grad());
    } else {
      collected_[i] = parameters_[i].grad().to(master_[i].scalar_type());
    }
    parameters_[i].mutable_grad().reset();
  }
}

size_t AdamW::IndexOf(const std::string& name) const {
  const auto found = std::lower_bound(names_.begin(), names_.end(), name);
  TORCH_CHECK(found != names_.end() && *found == name, "the optimizer has no parameter named ", name);
  return static_cast<size_t>(found - names_.begin());
}

void AdamW::AddGradient(const std::string& name, const at::Tensor& gradient) {
  const at::NoGradGuard no_history;
  at::Tensor& sum = collected_[IndexOf(name)];
  if (sum.defined()) {
    sum.add_(gradient);
  } else {
    sum = gradient;
  }
}

at::Tensor AdamW::Gradient(size_t i) const {
  const at::Tensor& latest = parameters_[i].grad();
  if (!latest.defined()) return collected_[i];
  const at::Tensor wide = latest.to(master_[i].scalar_type());
  return collected_[i].defined() ? collected_[i] + wide : wide;
}

std::map<std::string, at::Tensor> AdamW::Gradients() const {
  std::map<std::string, at::Tensor> gradients;
  for (size_t i = 0; i < names_.size(); ++i) gradients[names_[i]] = Gradient(i);
  return gradients;
}

double AdamW::GradNorm() const {
  const at::NoGradGuard no_history;
  at::Tensor total;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor gradient = Gradient(i);
    if (!gradient.defined()) continue;
    const at::Tensor norm = at::linalg_vector_norm(gradient, 2, std::nullopt, false, at::kDouble);
    total = total.defined() ? total + norm * norm : norm * norm;
  }
  return total.defined() ? std::sqrt(total.item<double>()) : 0.0;
}

std::vector<double> AdamW::GradNorms() const {
  const at::NoGradGuard no_history;
  std::vector<double> norms;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor gradient = Gradient(i);
    norms.push_back(gradient.defined()
                        ? at::linalg_vector_norm(gradient, 2, std::nullopt, false, at::kDouble).item<double>()
                        : 0.0);
  }
  return norms;
}

std::vector<at::Tensor> AdamW::ClippedGradients(double grad_norm) const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor gradient = Gradient(i);
    gradients.push_back(gradient.defined() ? gradient : at::zeros_like(master_[i]));
  }
  if (options_.grad_clip_norm > 0 && grad_norm > options_.grad_clip_norm) {
    at::_foreach_mul_(gradients, options_.grad_clip_norm / grad_norm);
  }
  return gradients;
}

void AdamW::TakeMemory() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    MarkedParameter& marked = marked_[i];
    if (!MarksOnHost(parameters_[i])) continue;
    if (marked.changes.words() == 0) marked.changes = weights::ChangeMask(parameters_[i].numel());
    if (!marked.taken || marked.next != nullptr) continue;
    absl::StatusOr<std::shared_ptr<std::byte[]>> memory =
        buffers_.Acquire(static_cast<int64_t>(parameters_[i].nbytes()));
    if (!memory.ok()) throw StatusError(memory.status());
    marked.next = *std::move(memory);
  }
}

void AdamW::RoundParameters() {
  TakeMemory();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (master_[i].is_same(parameters_[i])) continue;
    if (MarksOnHost(parameters_[i])) {
      RoundAndMark(i);
    } else if (Marks(parameters_[i])) {
      UpdateOnDevice(i, {}, {});
    } else {
      parameters_[i].copy_(master_[i]);
    }
  }
}

void AdamW::RoundAndMark(size_t i) {
  constexpr int64_t kSliceWords = weights::kSliceBytes / 2;
  MarkedParameter& marked = marked_[i];
  const bool moves = marked.next != nullptr, sums = moves || marked.memory != nullptr;
  const auto* from = master_[i].const_data_ptr<float>();
  auto* const before = static_cast<uint16_t*>(parameters_[i].mutable_data_ptr());
  auto* const to = moves ? reinterpret_cast<uint16_t*>(marked.next.get()) : before;
  const int64_t words = marked.changes.words();
  marked.slices.resize(static_cast<size_t>(weights::SlicesOf(2 * words)));
  kernels::TorchParallelFor()(std::ssize(marked.slices), [&](int64_t begin, int64_t end) {
    for (int64_t slice = begin; slice < end; ++slice) {
      const int64_t first = slice * kSliceWords, size = std::min(kSliceWords, words - first);
      uint64_t* entries = marked.changes.entries().data() + first / weights::ChangeMask::kEntryWords;
      weights::RoundToBfloat16(from + first, size, before + first, to + first, entries);
      if (!sums) continue;
      marked.slices[static_cast<size_t>(slice)] =
          base::Checksum64(std::as_bytes(std::span(to + first, static_cast<size_t>(size))));
    }
  });
  if (!moves) return;
  marked.memory = std::exchange(marked.next, nullptr);
  marked.taken = false;
  PointAt(parameters_[i], marked.memory);
}

kernels::AdamWUpdate AdamW::NumbersOf(size_t i, double learning_rate, int64_t t) const {
  const auto steps = static_cast<double>(t);
  return {.beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .root = std::sqrt(1.0 - std::pow(options_.beta2, steps)),
          .decay = master_[i].dim() >= 2 ? 1.0 - learning_rate * options_.weight_decay : 1.0,
          .step = -learning_rate / (1.0 - std::pow(options_.beta1, steps))};
}

void AdamW::UpdateOnDevice(size_t i, const at::Tensor& gradient, const kernels::AdamWUpdate& update) {
  kernels::AdamWRounding rounding;
  const bool narrow = update.weights && !master_[i].is_same(parameters_[i]);
  if (update.weights && Marks(parameters_[i])) {
    rounding.changes = MarksOf(i);
    if (narrow) rounding.parameter = parameters_[i];
  }
  kernels::AdamWOp(master_[i], exp_avg_[i], exp_avg_sq_[i], gradient, rounding, update);
  if (narrow && !rounding.parameter.defined()) parameters_[i].copy_(master_[i]);
}

const at::Tensor& AdamW::MarksOf(size_t i) {
  at::Tensor& marks = marked_[i].on_device;
  if (!marks.defined()) {
    constexpr int64_t kEntryWords = weights::ChangeMask::kEntryWords;
    const int64_t entries = (parameters_[i].numel() + kEntryWords - 1) / kEntryWords;
    marks = at::zeros({entries}, parameters_[i].options().dtype(at::kLong).requires_grad(false));
  }
  return marks;
}

std::map<std::string, kernels::MarkedTensor> AdamW::MarkedOnDevice() {
  std::map<std::string, kernels::MarkedTensor> marked;
  for (size_t i = 0; i < names_.size() && on_device(); ++i) {
    if (Marks(parameters_[i])) marked[names_[i]] = {parameters_[i].detach(), MarksOf(i)};
  }
  return marked;
}

void AdamW::ClearMarksOnDevice() {
  for (MarkedParameter& marked : marked_) {
    if (marked.on_device.defined()) marked.on_device.zero_();
  }
}

std::map<std::string, RoundedParameter> AdamW::TakeValues() {
  if (on_device()) return TakeMarked(MarkedOnDevice());
  std::map<std::string, RoundedParameter> all;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!Marks(parameters_[i])) continue;
    weights::ChangeMask changes = TakeChanges(names_[i]);
    std::vector<std::byte> values = ValuesOf(parameters_[i], changes);
    const std::span bytes(static_cast<const std::byte*>(parameters_[i].const_data_ptr()), parameters_[i].nbytes());
    all[names_[i]] = {
        .changes = std::move(changes), .values = std::move(values), .checksum = weights::TensorChecksum(bytes)};
  }
  return all;
}

std::map<std::string, RoundedParameter> AdamW::TakeRounded() {
  if (on_device()) return TakeMarked(MarkedOnDevice());
  std::map<std::string, RoundedParameter> all;
  for (size_t i = 0; i < names_.size(); ++i) {
    MarkedParameter& marked = marked_[i];
    if (!Marks(parameters_[i])) continue;
    RoundedParameter& rounded = all[names_[i]];
    rounded.changes = TakeChanges(names_[i]);
    marked.taken = true;
    if (marked.memory == nullptr) continue;
    rounded.memory = marked.memory;
    rounded.checksum = weights::CombineSlices(marked.slices);
  }
  return all;
}

weights::ChangeMask AdamW::TakeChanges(const std::string& name) {
  const size_t i = IndexOf(name);
  if (!MarksOnHost(parameters_[i])) return {};
  // The next update creates a new mask, when no caller is waiting.
  weights::ChangeMask changes = std::exchange(marked_[i].changes, {});
  return changes.words() > 0 ? std::move(changes) : weights::ChangeMask(parameters_[i].numel());
}

void AdamW::Step(double learning_rate, double grad_norm) {
  const at::NoGradGuard no_history;
  TakeMemory();
  ++steps_;
  if (parameters_.empty()) return;  // _foreach rejects empty lists
  std::vector<at::Tensor> gradients = ClippedGradients(grad_norm);
  if (on_device()) {
    for (size_t i = 0; i < gradients.size(); ++i) UpdateOnDevice(i, gradients[i], NumbersOf(i, learning_rate, steps_));
    return;
  }
  // The formulas in adamw.h, over all parameters at once: m, v, the denominator sqrt(v') + eps, then p.
  at::_foreach_mul_(exp_avg_, options_.beta1);
  at::_foreach_add_(exp_avg_, gradients, 1.0 - options_.beta1);
  at::_foreach_mul_(exp_avg_sq_, options_.beta2);
  at::_foreach_addcmul_(exp_avg_sq_, gradients, gradients, 1.0 - options_.beta2);

  const double t = static_cast<double>(steps_);
  std::vector<at::Tensor> denominator = at::_foreach_sqrt(exp_avg_sq_);
  at::_foreach_div_(denominator, std::sqrt(1.0 - std::pow(options_.beta2, t)));
  at::_foreach_add_(denominator, options_.eps);
  if (options_.weight_decay > 0 && !decayed_.empty()) {
    at::_foreach_mul_(decayed_, 1.0 - learning_rate * options_.weight_decay);
  }
  at::_foreach_addcdiv_(master_, exp_avg_, denominator, -learning_rate / (1.0 - std::pow(options_.beta1, t)));
  RoundParameters();
}

void AdamW::Propose(double learning_rate, double grad_norm) {
  const at::NoGradGuard no_history;
  TakeMemory();
  proposed_ = ClippedGradients(grad_norm);
  before_.clear();
  const auto t = static_cast<double>(steps_ + 1);
  // Handles one parameter at a time. The new moments are temporaries, which Commit recomputes.
  for (size_t i = 0; i < parameters_.size(); ++i) {
    before_.push_back(master_[i].detach().clone());
    const at::Tensor& gradient = proposed_[i];
    if (on_device()) {
      kernels::AdamWUpdate update = NumbersOf(i, learning_rate, steps_ + 1);
      update.moments = false;
      UpdateOnDevice(i, gradient, update);
      continue;
    }
    const at::Tensor exp_avg = exp_avg_[i].mul(options_.beta1).add_(gradient, 1.0 - options_.beta1);
    at::Tensor denominator = exp_avg_sq_[i].mul(options_.beta2).addcmul_(gradient, gradient, 1.0 - options_.beta2);
    denominator.sqrt_().div_(std::sqrt(1.0 - std::pow(options_.beta2, t))).add_(options_.eps);
    at::Tensor& master = master_[i];
    if (options_.weight_decay > 0 && master.dim() >= 2) master.mul_(1.0 - learning_rate * options_.weight_decay);
    master.addcdiv_(exp_avg, denominator, -learning_rate / (1.0 - std::pow(options_.beta1, t)));
  }
  if (!on_device()) RoundParameters();
}

void AdamW::Halve() {
  const at::NoGradGuard no_history;
  for (size_t i = 0; i < master_.size(); ++i) {
    master_[i].sub_(before_[i]).mul_(0.5).add_(before_[i]);
    // torch changes this parameter, and -0 becomes 0 even where the step had no effect.
    if (on_device() && master_[i].is_same(parameters_[i]) && Marks(parameters_[i])) MarksOf(i).fill_(-1);
  }
  RoundParameters();
}

void AdamW::Commit() {
  const at::NoGradGuard no_history;
  ++steps_;
  for (size_t i = 0; i < master_.size(); ++i) {
    if (on_device()) {
      kernels::AdamWUpdate update = NumbersOf(i, /*learning_rate=*/0, steps_);
      update.weights = false;
      UpdateOnDevice(i, proposed_[i], update);
      continue;
    }
    exp_avg_[i].mul_(options_.beta1).add_(proposed_[i], 1.0 - options_.beta1);
    exp_avg_sq_[i].mul_(options_.beta2).addcmul_(proposed_[i], proposed_[i], 1.0 - options_.beta2);
  }
  before_.clear();
  proposed_.clear();
}

void AdamW::TakeBack() {
  const at::NoGradGuard no_history;
  for (size_t i = 0; i < master_.size(); ++i) master_[i].copy_(before_[i]);
  RoundParameters();
  before_.clear();
  proposed_.clear();
}

void AdamW::ZeroGrad() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  for (at::Tensor& sum : collected_) sum.reset();
}

void AdamW::Reset() {
  const at::NoGradGuard no_history;
  for (std::vector<at::Tensor>* moments : {&exp_avg_, &exp_avg_sq_}) {
    for (at::Tensor& moment : *moments) moment.zero_();
  }
  steps_ = 0;
}

std::map<std::string, at::Tensor> AdamW::State() const {
  std::map<std::string, at::Tensor> state;
  for (size_t i = 0; i < names_.size(); ++i) {
    state["exp_avg." + names_[i]] = exp_avg_[i];
    state["exp_avg_sq." + names_[i]] = exp_avg_sq_[i];
    if (!master_[i].is_same(parameters_[i])) state["master." + names_[i]] = master_[i];
  }
  return state;
}

}  // namespace ingot::trainer
