#include "model/block.h"

#include <ATen/ATen.h>

#include <tuple>
#include <utility>
#include <vector>

#include "kernels/torch/experts.h"
#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"
#include "model/dispatch.h"

namespace ingot::model {
namespace {

kernels::Gate GateOf(const std::string& activation) {
  return activation == "clamped" ? kernels::Gate::kClamped : kernels::Gate::kGeluTanh;
}

kernels::RoutingShape RoutingOf(const ExpertsConfig& experts) {
  kernels::RoutingShape shape;
  shape.per_token = experts.per_token;
  shape.groups = experts.groups;
  shape.groups_per_token = experts.groups_per_token;
  shape.scoring = experts.scoring == "sigmoid"          ? kernels::RouterScoring::kSigmoid
                  : experts.scoring == "softmax_chosen" ? kernels::RouterScoring::kSoftmaxChosen
                                                        : kernels::RouterScoring::kSoftmax;
  shape.normalize = experts.normalize;
  shape.scale = experts.scale;
  return shape;
}

// Computes the load-balancing term (Switch Transformer, arXiv 2101.03961, equations 4 to 6): experts * sum over e of
// f_e P_e, where f_e is the fraction of routed rows and P_e the mean score. Both are weighted by the number of calls
// through each row. Sets the outputs of `aux`.
void ReportRoutes(const kernels::RoutedTokens& routed, Communicator& communicator, Aux* aux) {
  const int64_t rows = routed.scores.size(0), experts = routed.scores.size(1), per_token = routed.routes.size(1);
  const at::Tensor weights = aux->weights.defined() ? aux->weights.to(routed.scores.scalar_type())
                                                    : at::ones({rows}, routed.scores.options().requires_grad(false));
  const at::Tensor wide = weights.to(at::kDouble);
  const at::Tensor spread = wide.unsqueeze(1).expand({rows, per_token}).reshape({-1});
  aux->load = at::zeros({experts}, at::kDouble).index_add_(0, routed.routes.reshape({-1}), spread);
  const at::Tensor shares = routed.scores.detach().to(at::kDouble);
  const at::Tensor p = shares / shares.sum(1, true);
  aux->entropy = -(wide.unsqueeze(1) * at::xlogy(p, p)).sum().item<double>();
  if (aux->balance == 0) return;
  // The term covers all rows of a context, on all ranks. Load and entropy cover only this rank.
  const auto whole = [&](const at::Tensor& own) { return communicator.Sum(Axis::kContext, own); };
  const at::Tensor total = whole(weights.sum());
  const at::Tensor f = whole(aux->load).to(weights.scalar_type()) / (total * static_cast<double>(per_token));
  const at::Tensor scores = routed.scores / routed.scores.sum(1, true);  // for sigmoids; a softmax already sums to 1
  const at::Tensor mean = whole((scores * weights.unsqueeze(1)).sum(0)) / total;
  aux->balance_loss = (f * mean).sum() * (aux->balance * static_cast<double>(experts));
}

// Returns the routes of a layer's rows. With recorded experts, counts the rows that the router would route differently,
// ignoring the order of the choice. If `replay` is set, uses the recorded experts with the current router's scores as
// weights (R3, arXiv 2510.11370: the mask is recorded, the gates are not).
kernels::RoutedTokens RouteRows(const at::Tensor& logits, const at::Tensor& bias, const kernels::RoutingShape& shape,
                                Aux* aux) {
  if (aux == nullptr || !aux->recorded.defined()) return kernels::RouteOp(logits, bias, {}, shape);
  const at::Tensor own = kernels::RouteOp(logits.detach(), bias, {}, shape).routes;
  const at::Tensor has = aux->recorded.select(1, 0) >= 0;
  const at::Tensor differs =
      at::ne(std::get<0>(own.sort(1)), std::get<0>(aux->recorded.sort(1))).any(1).logical_and(has);
  aux->compared = has.sum().item<int64_t>();
  aux->differing = differs.sum().item<int64_t>();
  if (!aux->replay) return kernels::RouteOp(logits, bias, {}, shape);
  return kernels::RouteOp(logits, bias, at::where(has.unsqueeze(1), aux->recorded, own), shape);
}

// Returns the index of a product's bias, or -1 if no family has one.
int BiasOf(Part part) {
  const int place = static_cast<int>(part);
  if (part >= Part::kQuery && part <= Part::kOutput)
    return place + static_cast<int>(Part::kQueryBias) - static_cast<int>(Part::kQuery);
  if (part >= Part::kGate && part <= Part::kDown)
    return place + static_cast<int>(Part::kGateBias) - static_cast<int>(Part::kGate);
  return -1;
}

// The slices of a matrix or of an adapter's B with rows [heads][plain + value]: of keys or of values, one per head.
std::vector<at::Tensor> HeadSlices(const at::Tensor& matrix, const AttentionSpec& spec, bool values) {
  const LatentConfig& latent = spec.latent;
  const at::Tensor by_head = matrix.view({spec.heads, latent.plain_dim + latent.value_dim, matrix.size(1)});
  return by_head.split_with_sizes({latent.plain_dim, latent.value_dim}, 1)[values ? 1 : 0].unbind(0);
}

}  // namespace

Block::Block(int64_t index, LayerSpec spec, double eps, const std::map<std::string, at::Tensor>& tensors)
    : index_(index),
      spec_(std::move(spec)),
      eps_(eps),
      experts_(static_cast<size_t>(spec_.feed_forward.experts.count)) {
  for (const TensorSpec& tensor : spec_.tensors) {
    const at::Tensor& t = tensors.at(tensor.name);
    if (tensor.factor != Factor::kNone) {
      const auto expert_part = static_cast<size_t>(tensor.part) - static_cast<size_t>(Part::kExpertGate);
      Adapter& adapter = tensor.expert < 0 ? adapters_[static_cast<size_t>(tensor.part)]
                                           : experts_[static_cast<size_t>(tensor.expert)].adapters[expert_part];
      (tensor.factor == Factor::kA ? adapter.a : adapter.b) = t;
    } else if (tensor.expert < 0) {
      tensors_[static_cast<size_t>(tensor.part)] = t;
    } else {
      Expert& expert = experts_[static_cast<size_t>(tensor.expert)];
      at::Tensor* const places[] = {&expert.gate,      &expert.up,      &expert.down,
                                    &expert.gate_bias, &expert.up_bias, &expert.down_bias};
      *places[static_cast<size_t>(tensor.part) - static_cast<size_t>(Part::kExpertGate)] = t;
    }
  }
}

at::Tensor Block::Adapted(const at::Tensor& product, const at::Tensor& x, const Adapter& adapter) const {
  if (!adapter.a.defined()) return product;
  return product + kernels::LinearOp(kernels::LinearOp(x, adapter.a, {}), adapter.b, {}) * spec_.alpha_over_rank;
}

std::vector<at::Tensor> Block::Products(const at::Tensor& x, std::initializer_list<Part> parts, bool biased) const {
  std::vector<at::Tensor> weights, biases;
  for (const Part part : parts) {
    weights.push_back(at(part));
    const int place = BiasOf(part);
    biases.push_back(biased && place >= 0 ? tensors_[static_cast<size_t>(place)] : at::Tensor());
  }
  std::vector<at::Tensor> results = kernels::LinearsOp(x, weights, biases);
  size_t i = 0;
  for (const Part part : parts) {
    results[i] = Adapted(results[i], x, adapters_[static_cast<size_t>(part)]);
    ++i;
  }
  return results;
}

at::Tensor Block::NormWeight(Part weight) const { return spec_.centred ? at(weight) + 1 : at(weight); }

at::Tensor Block::Norm(const at::Tensor& x, Part weight) const {
  return kernels::RmsNormOp(x, NormWeight(weight), eps_);
}

// Norm over the heads of all ranks. This rank has its own heads and weights, and the sum of squares covers all ranks.
at::Tensor Block::NormOverHeads(const at::Tensor& flat, const at::Tensor& weight, Communicator& communicator) const {
  const int ranks = communicator.size(Axis::kTensor);
  if (ranks == 1) return kernels::RmsNormOp(flat, weight, eps_);
  const at::Tensor wide = flat.scalar_type() == at::kDouble ? flat : flat.to(at::kFloat);
  // Every rank scales its own heads by the sum, so the ranks' gradients with respect to the sum are added.
  const at::Tensor squares =
      communicator.Enter(Axis::kTensor, communicator.Sum(Axis::kTensor, wide.square().sum(1, true)));
  return (wide * at::rsqrt(squares / (flat.size(1) * ranks) + eps_)).to(flat.scalar_type()) * weight;
}

// The heads on all ranks share the head norm's weights.
at::Tensor Block::HeadWeight(Part norm, Communicator& communicator) const {
  if (spec_.attention.norm_whole || !at(norm).defined()) return {};
  return communicator.Enter(Axis::kTensor, NormWeight(norm));
}

// flat [N, heads * head_dim] -> [N, heads, head_dim], normed and rotated.
at::Tensor Block::Heads(const at::Tensor& flat, int64_t heads, Part norm, const at::Tensor& positions,
                        const RopeTables& rope, Communicator& communicator) const {
  const AttentionSpec& spec = spec_.attention;
  const int64_t rows = flat.size(0);
  const at::Tensor &cos = rope.cos(spec.local_rope), &sin = rope.sin(spec.local_rope);
  const at::Tensor whole = spec.norm_whole ? NormOverHeads(flat, NormWeight(norm), communicator) : flat;
  const at::Tensor shaped = whole.view({rows, heads, spec.head_dim}), per_head = HeadWeight(norm, communicator);
  if (spec.rotary_dim == spec.head_dim) {
    return kernels::NormRotateOp(shaped, per_head, eps_, cos, sin, positions);
  }
  const at::Tensor normed =
      per_head.defined() ? kernels::RmsNormOp(shaped.reshape({-1, spec.head_dim}), per_head, eps_).view(shaped.sizes())
                         : shaped;
  const at::Tensor turned = normed.narrow(2, 0, spec.rotary_dim).contiguous();
  return at::cat({kernels::NormRotateOp(turned, {}, eps_, cos, sin, positions),
                  normed.narrow(2, spec.rotary_dim, spec.head_dim - spec.rotary_dim)},
                 2);
}

// For latents c, scores are q W_k c = (W_k^T q) c. Each product covers one head's rows, so that a row's bits depend
// only on that row.
at::Tensor Block::ToLatents(const at::Tensor& q) const {
  const Adapter& adapter = adapters_[static_cast<size_t>(Part::kKey)];
  const std::vector<at::Tensor> heads = q.unbind(1), slices = HeadSlices(at(Part::kKey), spec_.attention, false);
  const std::vector<at::Tensor> factors =
      adapter.b.defined() ? HeadSlices(adapter.b, spec_.attention, false) : std::vector<at::Tensor>();
  std::vector<at::Tensor> results;
  for (size_t h = 0; h < heads.size(); ++h) {
    const at::Tensor rows = heads[h].contiguous();
    results.push_back(kernels::LinearOp(rows, slices[h].t().contiguous(), {}));
    if (factors.empty()) continue;
    const at::Tensor low = kernels::LinearOp(rows, factors[h].t().contiguous(), {});
    results.back() = results.back() + kernels::LinearOp(low, adapter.a.t().contiguous(), {}) * spec_.alpha_over_rank;
  }
  return at::stack(results, 1);
}

at::Tensor Block::ToValues(const at::Tensor& attended) const {
  const Adapter& adapter = adapters_[static_cast<size_t>(Part::kKey)];
  const std::vector<at::Tensor> heads = attended.unbind(1), slices = HeadSlices(at(Part::kKey), spec_.attention, true);
  const std::vector<at::Tensor> factors =
      adapter.b.defined() ? HeadSlices(adapter.b, spec_.attention, true) : std::vector<at::Tensor>();
  std::vector<at::Tensor> results;
  for (size_t h = 0; h < heads.size(); ++h) {
    const at::Tensor rows = heads[h].contiguous();
    results.push_back(kernels::LinearOp(rows, slices[h].contiguous(), {}));
    if (factors.empty()) continue;
    const at::Tensor low = kernels::LinearOp(rows, adapter.a, {});
    results.back() = results.back() + kernels::LinearOp(low, factors[h].contiguous(), {}) * spec_.alpha_over_rank;
  }
  return at::cat(results, 1);
}

std::array<at::Tensor, 2> Block::Latent(const at::Tensor& h, const at::Tensor& positions, const RopeTables& rope,
                                        Communicator& communicator) const {
  constexpr double kNarrowEps = 1e-6;  // for the narrow vectors' norms, regardless of the file
  const LatentConfig& latent = spec_.attention.latent;
  const int64_t rows = h.size(0), heads = spec_.attention.heads, width = latent.plain_dim + latent.rotary_dim;
  const auto rotated = [&](const at::Tensor& x) {  // [rows, heads, rotary_dim]
    const at::Tensor halves =
        latent.interleaved ? x.unflatten(2, {latent.rotary_dim / 2, 2}).transpose(2, 3).flatten(2) : x;
    return kernels::NormRotateOp(halves.contiguous(), {}, eps_, rope.cos(), rope.sin(), positions);
  };
  at::Tensor q = h;
  if (latent.query_rank > 0) {
    q = kernels::RmsNormOp(Products(h, {Part::kQueryDown})[0], at(Part::kQueryDownNorm), kNarrowEps);
  }
  // Every rank computes the narrow vectors, then the keys and queries of its own heads.
  q = Products(communicator.Enter(Axis::kTensor, q), {Part::kQuery})[0].view({rows, heads, width});
  const at::Tensor down = Products(h, {Part::kLatentDown})[0];
  const at::Tensor narrow =
      kernels::RmsNormOp(down.narrow(1, 0, latent.kv_rank).contiguous(), at(Part::kLatentNorm), kNarrowEps);
  const at::Tensor common = rotated(down.narrow(1, latent.kv_rank, latent.rotary_dim).unsqueeze(1));
  const at::Tensor keys = communicator.Enter(Axis::kTensor, at::cat({narrow.unsqueeze(1), common}, 2));
  return {
      at::cat({ToLatents(q.narrow(2, 0, latent.plain_dim)), rotated(q.narrow(2, latent.plain_dim, latent.rotary_dim))},
              2),
      keys};
}

at::Tensor Block::Attention(const at::Tensor& normed, const at::Tensor& positions, const RopeTables& rope,
                            AttentionBackend& attention, Communicator& communicator) const {
  const AttentionSpec& spec = spec_.attention;
  const int64_t rows = normed.size(0);
  const bool biased = communicator.rank(Axis::kTensor) == 0;  // a bias counts once in the sum over ranks
  if (spec.latent.kv_rank > 0) {
    const auto [q, own] = Latent(normed, positions, rope, communicator);
    const at::Tensor k = communicator.Gather(Axis::kContext, own, 0);
    const at::Tensor attended = attention.Attend(index_, {.spec = spec, .q = q, .k = k, .v = k, .sinks = {}});
    const at::Tensor values = ToValues(attended.narrow(2, 0, spec.latent.kv_rank));
    return communicator.Sum(Axis::kTensor, Products(values, {Part::kOutput}, biased)[0]);
  }
  const at::Tensor h = communicator.Enter(Axis::kTensor, normed);
  const std::vector<at::Tensor> qkv = Products(h, {Part::kQuery, Part::kKey, Part::kValue});
  at::Tensor raw = qkv[0], gate;
  if (spec.gated) {  // [heads][q | gate]
    const at::Tensor both = raw.view({rows, spec.heads, 2 * spec.head_dim});
    raw = both.narrow(2, 0, spec.head_dim).reshape({rows, spec.queries()});
    gate = attention.PassThrough(index_, both.narrow(2, spec.head_dim, spec.head_dim).reshape({rows, spec.queries()}));
  }
  AttentionInput input{.spec = spec, .q = {}, .k = {}, .v = {}, .sinks = at(Part::kSinks)};
  const at::Tensor v = qkv[2].view({rows, spec.kv_heads, spec.head_dim});
  const bool turns_whole = spec.rotary_dim == spec.head_dim && !spec.norm_whole;
  const auto pages = turns_whole ? attention.Pages(index_, v.scalar_type()) : std::nullopt;
  if (pages.has_value()) {
    const kernels::HeadTurn turn{HeadWeight(Part::kQueryNorm, communicator),
                                 HeadWeight(Part::kKeyNorm, communicator),
                                 eps_,
                                 rope.cos(spec.local_rope),
                                 rope.sin(spec.local_rope),
                                 positions};
    input.q = kernels::TurnAndWriteRows(raw.view({rows, spec.heads, spec.head_dim}),
                                        qkv[1].view({rows, spec.kv_heads, spec.head_dim}), v, turn, *pages);
  } else {
    input.q = Heads(raw, spec.heads, Part::kQueryNorm, positions, rope, communicator);
    const at::Tensor k = Heads(qkv[1], spec.kv_heads, Part::kKeyNorm, positions, rope, communicator);
    // If the context is divided, its rows see the keys on all ranks.
    input.k = communicator.Gather(Axis::kContext, k, 0);
    input.v = communicator.Gather(Axis::kContext, v, 0);
  }
  const at::Tensor attended = attention.Attend(index_, input);
  at::Tensor flat = attended.reshape({rows, spec.queries()});
  if (spec.gated) flat = kernels::GatedOp(kernels::Gate::kSigmoid, gate, flat);
  return communicator.Sum(Axis::kTensor, Products(flat, {Part::kOutput}, biased)[0]);
}

at::Tensor Block::Recurrence(const at::Tensor& rows_in, AttentionBackend& attention, Communicator& communicator) const {
  const kernels::DeltaShape& shape = spec_.recurrence.shape;
  TORCH_CHECK(communicator.size(Axis::kTensor) == 1 && communicator.size(Axis::kContext) == 1, "layer ", index_,
              " is recurrent: its heads and rows cannot be divided among ranks of tensor or context parallelism");
  const int64_t rows = rows_in.size(0), shared = shape.sharing() * shape.value_dim;
  const std::vector<at::Tensor> made = Products(rows_in, {Part::kRecurrentIn, Part::kRecurrentRates});
  // [key heads][q | k | v of its value heads | the same for z], and [key heads][rates | steps].
  const std::vector<at::Tensor> by_head = made[0]
                                              .view({rows, shape.key_heads, 2 * (shape.key_dim + shared)})
                                              .split_with_sizes({shape.key_dim, shape.key_dim, shared, shared}, 2);
  const auto flat = [&](const at::Tensor& t) { return t.reshape({rows, -1}); };
  const at::Tensor gate =
      attention.PassThrough(index_, by_head[3].reshape({rows * shape.value_heads, shape.value_dim}));
  const std::vector<at::Tensor> rates =
      made[1].view({rows, shape.key_heads, 2 * shape.sharing()}).split(shape.sharing(), 2);
  const at::Tensor result =
      attention.Recur(index_, {.spec = spec_.recurrence,
                               .tensors = {.x = at::cat({flat(by_head[0]), flat(by_head[1]), flat(by_head[2])}, 1),
                                           .step = flat(rates[1]),
                                           .rate = flat(rates[0]),
                                           .convolution = at(Part::kConvolution),
                                           .step_bias = at(Part::kStepBias),
                                           .decay = at(Part::kDecay)}});
  const at::Tensor normed =
      kernels::RmsNormOp(result.reshape({rows * shape.value_heads, shape.value_dim}), at(Part::kRecurrentNorm), eps_);
  return Products(kernels::SwiGluOp(gate, normed).view({rows, shape.values()}), {Part::kRecurrentOut})[0];
}

at::Tensor Block::Activated(const at::Tensor& gate, const at::Tensor& up) const {
  const std::string& activation = spec_.feed_forward.activation;
  return activation == "silu" ? kernels::SwiGluOp(gate, up) : kernels::GatedOp(GateOf(activation), gate, up);
}

at::Tensor Block::RunExpert(const Expert& expert, const at::Tensor& x, bool biased) const {
  const std::vector<at::Tensor> products =
      kernels::LinearsOp(x, {expert.gate, expert.up}, {expert.gate_bias, expert.up_bias});
  const auto& [of_gate, of_up, of_down] = expert.adapters;
  const at::Tensor inner = Activated(Adapted(products[0], x, of_gate), Adapted(products[1], x, of_up));
  return Adapted(kernels::LinearOp(inner, expert.down, biased ? expert.down_bias : at::Tensor()), inner, of_down);
}

// Sorts rows by the expert that they use, so that each expert is one product over its rows.
at::Tensor Block::Experts(const at::Tensor& h, Communicator& communicator, Aux* aux) const {
  const ExpertsConfig& spec = spec_.feed_forward.experts;
  const int64_t rows = h.size(0), width = h.size(1);
  at::Tensor logits = kernels::WideLinearOp(h, at(Part::kRouter));
  if (at(Part::kRouterBias).defined()) logits = logits + at(Part::kRouterBias).to(logits.scalar_type());
  const kernels::RoutedTokens routed = RouteRows(logits, at(Part::kCorrectionBias), RoutingOf(spec), aux);
  if (aux != nullptr) aux->routes = routed.routes;
  if (aux != nullptr && aux->measure) ReportRoutes(routed, communicator, aux);
  const at::Tensor flat = routed.routes.reshape({-1});
  const at::Tensor order = flat.argsort(/*stable=*/true, /*dim=*/0);
  const at::Tensor counts = at::bincount(flat, {}, spec.count);
  const at::Tensor entered = communicator.Enter(Axis::kTensor, h);
  const at::Tensor weights = communicator.Enter(Axis::kTensor, routed.weights);  // they scale partial sums
  const bool biased = communicator.rank(Axis::kTensor) == 0;
  const Dispatch dispatch(communicator, counts);
  const at::Tensor gathered = dispatch.Send(entered.index_select(0, order.floor_divide(spec.per_token)));
  std::vector<at::Tensor> results;
  const int64_t* count = dispatch.counts().const_data_ptr<int64_t>();
  for (int64_t e = 0, begin = 0; e < dispatch.counts().size(0); begin += count[e++]) {
    if (count[e] == 0) continue;
    results.push_back(
        RunExpert(experts_[static_cast<size_t>(dispatch.first() + e)], gathered.narrow(0, begin, count[e]), biased));
  }
  const at::Tensor ran = results.empty() ? gathered : at::cat(results);
  const at::Tensor inverse = at::empty_like(order).scatter_(0, order, at::arange(order.size(0), order.options()));
  const at::Tensor slots = dispatch.Return(ran).index_select(0, inverse).view({rows, spec.per_token, width});
  // Summed in the order of the row's choices, in the type of the scores.
  at::Tensor sum;
  for (int64_t k = 0; k < spec.per_token; ++k) {
    const at::Tensor part = slots.select(1, k).to(weights.scalar_type()) * weights.select(1, k).unsqueeze(1);
    sum = sum.defined() ? sum + part : part;
  }
  at::Tensor result = sum.to(h.scalar_type());
  if (at(Part::kSharedGate).defined()) {
    const std::vector<at::Tensor> gate_up = Products(entered, {Part::kSharedGate, Part::kSharedUp});
    at::Tensor shared = Products(Activated(gate_up[0], gate_up[1]), {Part::kSharedDown})[0];
    if (spec.shared_gate) {
      const at::Tensor share = communicator.Enter(Axis::kTensor, Products(h, {Part::kSharedShare})[0]);
      shared = kernels::GatedOp(kernels::Gate::kSigmoid, share.expand({rows, width}), shared);
    }
    result = result + shared;
  }
  return communicator.Sum(Axis::kTensor, result);
}

at::Tensor Block::FeedForward(const at::Tensor& normed, Communicator& communicator, Aux* aux) const {
  if (!experts_.empty()) return Experts(normed, communicator, aux);
  const at::Tensor h = communicator.Enter(Axis::kTensor, normed);
  const bool biased = communicator.rank(Axis::kTensor) == 0;  // a bias counts once in the sum over ranks
  const std::vector<at::Tensor> gate_up = Products(h, {Part::kGate, Part::kUp});
  return communicator.Sum(Axis::kTensor, Products(Activated(gate_up[0], gate_up[1]), {Part::kDown}, biased)[0]);
}

Stream Block::Run(const Stream& in, const at::Tensor& positions, const RopeTables& rope, AttentionBackend& attention,
                  Communicator& communicator, Aux* aux) const {
  const auto [input, normed] = in.plus.defined()
                                   ? kernels::ResidualNormOp(in.x, in.plus, NormWeight(Part::kInputNorm), eps_)
                                   : kernels::Residual{in.x, Norm(in.x, Part::kInputNorm)};
  const at::Tensor projected = spec_.recurrence.exists() ? Recurrence(normed, attention, communicator)
                                                         : Attention(normed, positions, rope, attention, communicator);
  if (spec_.gemma) {  // each part's result is normed before it is added
    const at::Tensor x = input + Norm(projected, Part::kAttentionNorm);
    return {x, Norm(FeedForward(Norm(x, Part::kPostNorm), communicator, aux), Part::kFeedForwardNorm)};
  }
  const auto [x, h] = kernels::ResidualNormOp(input, projected, NormWeight(Part::kPostNorm), eps_);
  return {x, FeedForward(h, communicator, aux)};
}

at::Tensor Block::Forward(const at::Tensor& x, const at::Tensor& positions, const RopeTables& rope,
                          AttentionBackend& attention, Communicator& communicator, Aux* aux) const {
  const Stream out = Run({x, {}}, positions, rope, attention, communicator, aux);
  return out.x + out.plus;
}

}  // namespace ingot::model
