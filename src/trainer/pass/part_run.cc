#include "trainer/pass/part_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>
#include <tuple>

#include "kernels/torch/tree_attention.h"
#include "kernels/torch/typed.h"

namespace ingot::trainer {
namespace {

at::Tensor Ints(const int32_t* values, size_t count, const at::TensorOptions& options) {
  return at::from_blob(const_cast<int32_t*>(values), {static_cast<int64_t>(count)}, at::dtype(at::kInt))
      .to(options, /*non_blocking=*/false, /*copy=*/true);
}

void AddGradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (!parameter.requires_grad()) return;
  at::Tensor& sum = parameter.mutable_grad();
  sum = sum.defined() ? sum.add_(gradient) : gradient;
}

at::Tensor SumsLike(const at::Tensor& keys) {
  return at::zeros(keys.sizes(), keys.options().dtype(kernels::AccumulatorType(keys)));
}

}  // namespace

// Implements attention for one layer's run. It cuts the autograd history: q, k, and v end the first half, and the
// attention output starts the second.
class PartRun::Attention final : public model::AttentionBackend {
 public:
  Attention(PartRun& run, Tape& tape, bool history) : run_(run), tape_(tape), history_(history) {}

  at::Tensor Attend(int64_t layer, const model::AttentionInput& input) override {
    const at::Tensor &q = input.q, &k = input.k, &v = input.v;
    {
      const at::NoGradGuard no_history;
      const at::Tensor keys = run_.Prefix(layer, &PathRows::k, k.detach());
      const at::Tensor values = v.is_same(k) ? keys : run_.Prefix(layer, &PathRows::v, v.detach());
      const kernels::TreeAttentionOptions options = run_.OptionsOf(input.spec, input.sinks);
      std::tie(tape_.attended, tape_.lse) =
          run_.strands_ == nullptr
              ? kernels::TreeAttentionForward(q.detach(), keys, values, options)
              : kernels::PathAttentionForward(q.detach(), keys, values, run_.strands_->paths(), input.spec.scale,
                                              options.sinks, options.window, options.soft_cap, run_.path_plans_);
      Export(layer, k, v);
    }
    if (history_) {
      tape_.sinks = input.sinks;
      tape_.q = q;
      tape_.k = k;
      tape_.v = v;
      tape_.attended.requires_grad_(true);
    }
    return tape_.attended;
  }

  at::Tensor Recur(int64_t layer, const model::RecurrentInput& input) override {
    const kernels::DeltaShape& shape = input.spec.shape;
    const kernels::DeltaInput& tensors = input.tensors;
    kernels::DeltaStates left;
    if (!run_.kept_.empty()) {
      left = kernels::NewDeltaStates(shape, std::ssize(run_.kept_), tensors.x.options().requires_grad(false));
    }
    tape_.attended = kernels::GatedDeltaForward(shape, tensors, run_.parents_, run_.Given(layer, shape, tensors.x),
                                                run_.kept_, left);
    if (left.defined()) run_.path_[run_.index_].states[static_cast<size_t>(layer)] = left;
    if (history_) {
      tape_.recurrent = tensors;
      tape_.attended.requires_grad_(true);
    }
    return tape_.attended;
  }

  at::Tensor PassThrough(int64_t, const at::Tensor& gate) override {
    if (!history_) return gate;
    tape_.gate = gate;
    tape_.passed = gate.detach().requires_grad_(true);
    return tape_.passed;
  }

 private:
  void Export(int64_t layer, const at::Tensor& k, const at::Tensor& v) {
    PathRows& rows = run_.path_[run_.index_];
    if (run_.part_.exports.empty() || rows.k[static_cast<size_t>(layer)].defined()) return;
    const bool all = static_cast<int64_t>(run_.part_.exports.size()) == k.size(0);
    rows.k[static_cast<size_t>(layer)] = all ? k.detach() : k.detach().index_select(0, run_.exports_);
    at::Tensor& values = rows.v[static_cast<size_t>(layer)];
    values = v.is_same(k) ? rows.k[static_cast<size_t>(layer)]
             : all        ? v.detach()
                          : v.detach().index_select(0, run_.exports_);
  }

  PartRun& run_;
  Tape& tape_;
  const bool history_;
};

PartRun::PartRun(const model::Transformer& model, const tree::PackedForest& forest,
                 std::span<const tree::ForestPart> parts, size_t index, std::vector<PathRows>& path,
                 kernels::Numerics numerics, LayerWeights* weights, ExpertRecord* experts, const RecordedRoutes* routes)
    : model_(model),
      part_(parts[index]),
      index_(index),
      path_(path),
      weights_(weights),
      experts_(experts),
      routes_(routes) {
  const auto ids = at::dtype(at::kLong).device(model.parameters().tensors().begin()->second.device());
  const auto size = static_cast<size_t>(part_.size());
  tokens_ = Ints(forest.token_ids.data() + part_.begin, size, ids);
  positions_ = Ints(forest.positions.data() + part_.begin, size, ids);
  visible_end_ = at::from_blob(const_cast<int32_t*>(part_.visible_end.data()),
                               {static_cast<int64_t>(part_.visible_end.size())}, at::dtype(at::kInt));
  exports_ = Ints(part_.exports.data(), part_.exports.size(), ids);
  std::vector<int32_t> depths(static_cast<size_t>(part_.prefix_rows));  // depths of the path before its first row
  std::iota(depths.begin(), depths.end(), 0);
  depths.insert(depths.end(), forest.positions.begin() + part_.begin, forest.positions.begin() + part_.end);
  if (model.config().sliding_window > 0) depths_ = Ints(depths.data(), depths.size(), at::dtype(at::kInt));
  if (numerics == kernels::Numerics::kExact) {
    strands_ = std::make_unique<const StrandPaths>(depths, static_cast<int32_t>(part_.prefix_rows));
  }
  if (!model.config().recurrent.layers.empty()) {
    parents_ = tree::ParentsIn(forest, part_);
    for (const int32_t row : part_.branches) kept_.push_back({row, static_cast<int32_t>(kept_.size())});
  }
  if (!part_.exports.empty() && path_[index].k.empty()) {
    PathRows& rows = path_[index];
    for (auto* tensors : {&rows.k, &rows.v, &rows.grad_k, &rows.grad_v}) {
      tensors->resize(static_cast<size_t>(model.config().num_hidden_layers));
    }
    for (auto* states : {&rows.states, &rows.grad_states}) {
      states->resize(static_cast<size_t>(model.config().num_hidden_layers));
    }
  }
}

kernels::TreeAttentionOptions PartRun::OptionsOf(const model::AttentionSpec& spec, const at::Tensor& sinks) const {
  kernels::TreeAttentionOptions options;
  options.scale = spec.scale;
  options.visible_end = visible_end_;
  options.plans = plans_;
  options.window = spec.window;
  options.soft_cap = spec.soft_cap;
  if (spec.window > 0) options.positions = depths_;
  if (sinks.defined()) options.sinks = sinks.detach();
  return options;
}

at::Tensor PartRun::Prefix(int64_t layer, std::vector<at::Tensor> PathRows::* rows, const at::Tensor& own) const {
  if (part_.prefix.empty()) return own;
  std::vector<at::Tensor> pieces;
  for (const tree::ForestPart::Source& source : part_.prefix) {
    const PathRows& from = path_[static_cast<size_t>(source.part)];
    pieces.push_back((from.*rows)[static_cast<size_t>(layer)].narrow(0, 0, source.rows));
  }
  pieces.push_back(own);
  return at::cat(pieces);
}

kernels::DeltaStates PartRun::Given(int64_t layer, const kernels::DeltaShape& shape, const at::Tensor& x) const {
  if (part_.crossings.empty()) return {};
  kernels::DeltaStates given =
      kernels::NewDeltaStates(shape, std::ssize(part_.crossings), x.options().requires_grad(false));
  for (int64_t i = 0; i < std::ssize(part_.crossings); ++i) {
    const tree::ForestPart::Crossing& crossing = part_.crossings[static_cast<size_t>(i)];
    const kernels::DeltaStates& from = path_[static_cast<size_t>(crossing.part)].states[static_cast<size_t>(layer)];
    given.state[i].copy_(from.state[crossing.branch]);
    given.past[i].copy_(from.past[crossing.branch]);
  }
  return given;
}

PartRun::Tape PartRun::RunLayer(int64_t layer, const at::Tensor& x, bool history) {
  const at::AutoGradMode mode(history);
  Tape tape;
  tape.x = x.detach();
  if (history) tape.x.requires_grad_(true);
  Attention attention(*this, tape, history);
  const bool counts = experts_ != nullptr && history, replays = routes_ != nullptr && routes_->replays();
  if (!model_.config().has_experts(layer) || (!counts && !replays)) {
    tape.y = model_.RunLayer(layer, tape.x, positions_, attention);
    return tape;
  }
  model::Aux aux;
  if (counts) aux = experts_->AuxOf(part_.begin, part_.end, tape.x.device());
  if (routes_ != nullptr) routes_->Report(layer, part_.begin, part_.end, tape.x.device(), aux);
  aux.measure = counts;
  tape.y = model_.RunLayer(layer, tape.x, positions_, attention, &aux);
  if (counts) experts_->Add(layer, aux);
  tape.balance_loss = aux.balance_loss;
  return tape;
}

void PartRun::ShowLayer(int64_t before, base::WorkPart* shown) const {
  if (shown == nullptr) return;
  const int64_t layers = model_.config().num_hidden_layers, rows = part_.size();
  shown->Advance(rows * (before + 1) / layers - rows * before / layers);
}

at::Tensor PartRun::Forward(History history, base::WorkPart* shown) {
  inputs_.clear();
  tapes_.clear();
  if (weights_ != nullptr) weights_->NeedEmbedding();
  at::Tensor x = model_.Embed(tokens_).detach();
  for (int64_t layer = 0; layer < model_.config().num_hidden_layers; ++layer) {
    if (history == History::kInputs) inputs_.push_back(x);
    if (weights_ != nullptr) weights_->NeedLayer(layer);
    Tape tape = RunLayer(layer, x, history == History::kAll);
    x = tape.y.detach();
    if (history == History::kAll) tapes_.push_back(std::move(tape));
    ShowLayer(layer, shown);
  }
  return x;
}

void PartRun::AttentionBackward(int64_t layer, Tape& tape) {
  const at::NoGradGuard no_history;
  const auto at_layer = static_cast<size_t>(layer);
  const int64_t prefix = part_.prefix_rows, own = part_.size();
  at::Tensor keys = Prefix(layer, &PathRows::k, tape.k.detach());
  at::Tensor values = tape.v.is_same(tape.k) ? keys : Prefix(layer, &PathRows::v, tape.v.detach());
  at::Tensor sums[2] = {SumsLike(keys), SumsLike(values)};
  PathRows& self = path_[index_];
  const std::vector<at::Tensor> PathRows::* grads[2] = {&PathRows::grad_k, &PathRows::grad_v};
  for (int i = 0; i < 2; ++i) {
    if (part_.exports.empty() || !(self.*grads[i])[at_layer].defined()) continue;
    sums[i].narrow(0, prefix, own).index_copy_(0, exports_, (self.*grads[i])[at_layer]);
  }
  const kernels::TreeAttentionOptions options = OptionsOf(model_.layer(layer).attention, tape.sinks);
  at::Tensor by_sinks;
  const at::Tensor grad_q =
      kernels::TreeAttentionBackward(tape.attended.grad().contiguous(), tape.q.detach(), keys, values,
                                     tape.attended.detach(), tape.lse, options, sums[0], sums[1], &by_sinks);
  if (tape.sinks.defined()) AddGradient(tape.sinks, by_sinks);
  keys.reset();
  values.reset();
  tape.attended.reset();
  for (int i = 0; i < 2; ++i) {
    int64_t row = 0;
    for (const tree::ForestPart::Source& source : part_.prefix) {
      PathRows& from = path_[static_cast<size_t>(source.part)];
      at::Tensor& sum = (i == 0 ? from.grad_k : from.grad_v)[at_layer];
      if (!sum.defined()) sum = SumsLike(from.k[at_layer]);
      sum.narrow(0, 0, source.rows).add_(sums[i].narrow(0, row, source.rows));
      row += source.rows;
    }
  }
  const at::Tensor grad_k = sums[0].narrow(0, prefix, own).to(tape.k.scalar_type());
  const at::Tensor grad_v = sums[1].narrow(0, prefix, own).to(tape.v.scalar_type());
  std::vector<at::Tensor> ends = {tape.q, tape.k, tape.v}, grads_of = {grad_q, grad_k, grad_v};
  if (tape.gate.defined()) {
    ends.push_back(tape.gate);
    grads_of.push_back(tape.passed.grad());
  }
  torch::autograd::backward(ends, grads_of);
}

void PartRun::RecurrenceBackward(int64_t layer, Tape& tape) {
  const at::NoGradGuard no_history;
  const auto at_layer = static_cast<size_t>(layer);
  const kernels::DeltaShape& shape = model_.layer(layer).recurrence.shape;
  const kernels::DeltaInput& input = tape.recurrent;
  const auto sums = input.x.options().requires_grad(false).dtype(kernels::AccumulatorType(input.x));
  const kernels::DeltaStates given = Given(layer, shape, input.x);
  kernels::DeltaStates by_given;
  if (given.defined()) by_given = kernels::NewDeltaStates(shape, std::ssize(part_.crossings), sums);
  const kernels::DeltaStates by_kept = kept_.empty() ? kernels::DeltaStates() : path_[index_].grad_states[at_layer];
  const kernels::DeltaInput by =
      kernels::GatedDeltaBackward(shape, input, parents_, given, kept_, tape.attended.grad(), by_kept, by_given);
  for (int64_t i = 0; i < std::ssize(part_.crossings); ++i) {
    const tree::ForestPart::Crossing& crossing = part_.crossings[static_cast<size_t>(i)];
    PathRows& from = path_[static_cast<size_t>(crossing.part)];
    kernels::DeltaStates& sum = from.grad_states[at_layer];
    if (!sum.defined()) sum = kernels::NewDeltaStates(shape, from.states[at_layer].state.size(0), sums);
    sum.state[crossing.branch].add_(by_given.state[i]);
    sum.past[crossing.branch].add_(by_given.past[i]);
  }
  AddGradient(input.convolution, by.convolution);
  AddGradient(input.step_bias, by.step_bias);
  AddGradient(input.decay, by.decay);
  torch::autograd::backward({input.x, input.step, input.rate, tape.gate}, {by.x, by.step, by.rate, tape.passed.grad()});
}

void PartRun::Backward(at::Tensor grad, base::WorkPart* shown) {
  const bool again = tapes_.empty();
  for (int64_t layer = model_.config().num_hidden_layers; layer-- > 0;) {
    if (weights_ != nullptr) weights_->NeedLayer(layer);
    Tape tape;
    if (again) {
      tape = RunLayer(layer, inputs_.back(), /*history=*/true);
      inputs_.pop_back();
    } else {
      tape = std::move(tapes_.back());
      tapes_.pop_back();
    }
    if (tape.balance_loss.defined()) {
      torch::autograd::backward({tape.y, tape.balance_loss}, {grad, at::ones_like(tape.balance_loss)});
    } else {
      tape.y.backward(grad);
    }
    tape.y.reset();
    tape.balance_loss.reset();
    if (tape.recurrent.x.defined()) {
      RecurrenceBackward(layer, tape);
    } else {
      AttentionBackward(layer, tape);
    }
    grad = tape.x.grad();
    if (PathRows& self = path_[index_]; !self.k.empty()) {  // all parts that read these rows have run backward
      const auto at_layer = static_cast<size_t>(layer);
      for (auto* tensors : {&self.k, &self.v, &self.grad_k, &self.grad_v}) (*tensors)[at_layer].reset();
      self.states[at_layer] = self.grad_states[at_layer] = {};
    }
    ShowLayer(model_.config().num_hidden_layers - 1 - layer, shown);
  }
  model_.AddEmbedGradient(tokens_, grad);
}

}  // namespace ingot::trainer
