#include "kernels/torch/softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <initializer_list>
#include <span>
#include <type_traits>

#include "kernels/softmax.h"
#include "kernels/torch/add_rows.h"
#include "kernels/torch/device_op.h"
#include "kernels/torch/softmax_ops.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("policy_sums(Tensor logits, Tensor temperature, Tensor(a!) top, Tensor(b!) log_sum, Tensor(c!) entropy) -> ()");
  m.def(
      "policy_log_probs(Tensor logits, Tensor temperature, Tensor top, Tensor log_sum, Tensor? rows, Tensor(a!) out) "
      "-> ()");
  m.def(
      "policy_token_log_probs(Tensor logits, Tensor temperature, Tensor top, Tensor log_sum, Tensor rows, "
      "Tensor tokens, Tensor(a!) out) -> ()");
  m.def(
      "policy_backward(Tensor logits, Tensor temperature, Tensor top, Tensor log_sum, Tensor of_p, Tensor of_plogp, "
      "Tensor first, Tensor token, Tensor addend, float soft_cap, Tensor(a!) out) -> ()");
}

// Returns whether the logits are on a device that has kernels for them.
bool OnDevice(const at::Tensor& logits) {
  static const DeviceOp<PolicySumsSignature> op("ingot::policy_sums");
  return op.Serves(logits);
}

template <typename T>
at::Tensor Upload(const std::vector<T>& values, at::ScalarType stored, const at::TensorOptions& options) {
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())}, at::dtype(stored))
      .to(options, /*non_blocking=*/false, /*copy=*/true);
}

std::vector<double> Download(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

// Uploads lists of numbers with one copy, and returns a tensor per list.
template <typename T>
std::vector<at::Tensor> UploadLists(std::initializer_list<const std::vector<T>*> lists, at::ScalarType stored,
                                    const at::TensorOptions& options) {
  std::vector<T> joined;
  std::vector<int64_t> sizes;
  for (const std::vector<T>* list : lists) {
    joined.insert(joined.end(), list->begin(), list->end());
    sizes.push_back(static_cast<int64_t>(list->size()));
  }
  return Upload(joined, stored, options).split_with_sizes(sizes);
}

// Calls f with a zero of the logits' type.
template <typename F>
void ByLogits(const at::Tensor& logits, const F& f) {
  if (logits.scalar_type() == at::kDouble) return f(double{});
  f(float{});
}

void Check(const PolicyTokens& tokens, const at::Tensor& logits) {
  TORCH_CHECK(tokens.row.size() == tokens.token.size(), "policy: ", tokens.row.size(), " rows of ", tokens.token.size(),
              " tokens");
  for (size_t i = 0; i < tokens.row.size(); ++i) {
    TORCH_CHECK(tokens.row[i] >= (i == 0 ? 0 : tokens.row[i - 1]) && tokens.row[i] < logits.size(0) &&
                    tokens.token[i] >= 0 && tokens.token[i] < logits.size(1),
                "policy: token ", tokens.token[i], " of row ", tokens.row[i], " is not in logits ", logits.sizes(),
                ", or its row comes before the previous token's row");
  }
}

}  // namespace

at::Tensor SoftCapOp(const at::Tensor& logits, double cap) {
  if (!logits.is_cpu() || (at::GradMode::is_enabled() && logits.requires_grad())) {
    return logits.div(cap).tanh().mul(cap);
  }
  at::Tensor capped = logits.contiguous();
  ByLogits(capped, [&](auto zero) {
    using T = decltype(zero);
    SoftCapLogits<T>(Write<T>(capped), capped.numel(), cap, TorchParallelFor());
  });
  return capped;
}

Policy::Policy(const at::Tensor& logits, const at::Tensor& temperature, double soft_cap) : soft_cap_(soft_cap) {
  TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0 && !(at::GradMode::is_enabled() && logits.requires_grad()),
              "logits must be [M, V] without history, got ", logits.sizes());
  TORCH_CHECK(temperature.dim() == 0 || (temperature.dim() == 1 && temperature.size(0) == logits.size(0)),
              "temperatures ", temperature.sizes(), " do not match logits ", logits.sizes());
  logits_ = logits.detach().to(AccumulatorType(logits)).contiguous();
  temperature_ = temperature.detach().to(logits_.options()).expand({logits.size(0)}).contiguous();
  if (!logits_.is_cpu() && !OnDevice(logits_)) {
    top_ = logits_.amax(1);
    const at::Tensor d = (logits_ - top_.unsqueeze(1)).div_(temperature_.unsqueeze(1)), e = d.exp(), sum = e.sum(1);
    log_sum_ = sum.log();
    entropy_ = log_sum_ - (d * e).sum(1) / sum;
    return;
  }
  for (at::Tensor* t : {&top_, &log_sum_, &entropy_}) *t = at::empty_like(temperature_);
  if (!logits_.is_cpu()) {
    static const DeviceOp<PolicySumsSignature> op("ingot::policy_sums");
    op(logits_, temperature_, top_, log_sum_, entropy_);
    return;
  }
  ByLogits(logits_, [&](auto zero) {
    using T = decltype(zero);
    SumPolicy<T>(Rows<T>(), TorchParallelFor());
  });
}

template <typename T>
PolicyRows<T> Policy::Rows() const {
  return {Read<T>(logits_), logits_.size(0),    logits_.size(1),    Read<T>(temperature_),
          Write<T>(top_),   Write<T>(log_sum_), Write<T>(entropy_), soft_cap_};
}

at::Tensor Policy::LogNormalizers() const { return top_ / temperature_ + log_sum_; }

std::vector<double> Policy::LogProbs(const PolicyTokens& tokens) const {
  Check(tokens, logits_);
  const at::TensorOptions index = at::dtype(at::kLong).device(logits_.device());
  const std::vector<at::Tensor> ids = UploadLists({&tokens.row, &tokens.token}, at::kLong, index);
  const at::Tensor &row = ids[0], &token = ids[1];
  if (OnDevice(logits_)) {
    static const DeviceOp<PolicyTokenLogProbsSignature> op("ingot::policy_token_log_probs");
    const at::Tensor out = at::empty(row.sizes(), logits_.options());
    op(logits_, temperature_, top_, log_sum_, row, token, out);
    return Download(out);
  }
  const auto of_row = [&](const at::Tensor& t) { return t.index_select(0, row); };
  const at::Tensor z = logits_.view({-1}).index_select(0, row * logits_.size(1) + token);
  return Download((z - of_row(top_)) / of_row(temperature_) - of_row(log_sum_));
}

at::Tensor Policy::LogSoftmax(bool overwrite_logits) const {
  at::Tensor out = overwrite_logits ? logits_ : at::empty_like(logits_);
  if (OnDevice(logits_)) {
    LogSoftmaxOnDevice({}, out);
    return out;
  }
  if (!logits_.is_cpu()) {
    at::sub_out(out, logits_, top_.unsqueeze(1));
    return out.div_(temperature_.unsqueeze(1)).sub_(log_sum_.unsqueeze(1));
  }
  ByLogits(logits_, [&](auto zero) {
    using T = decltype(zero);
    LogPolicy<T>(Rows<T>(), Write<T>(out), TorchParallelFor());
  });
  return out;
}

void Policy::LogSoftmaxOnDevice(const std::optional<at::Tensor>& rows, const at::Tensor& out) const {
  static const DeviceOp<PolicyLogProbsSignature> op("ingot::policy_log_probs");
  op(logits_, temperature_, top_, log_sum_, rows, out);
}

at::Tensor Policy::LogSoftmaxOf(std::span<const int64_t> rows) const {
  const at::TensorOptions index = at::dtype(at::kLong).device(logits_.device());
  const at::Tensor row = Upload(std::vector<int64_t>(rows.begin(), rows.end()), at::kLong, index);
  if (OnDevice(logits_)) {
    at::Tensor out = at::empty({row.size(0), logits_.size(1)}, logits_.options());
    LogSoftmaxOnDevice(row, out);
    return out;
  }
  const auto of_row = [&](const at::Tensor& t) { return t.index_select(0, row).unsqueeze(1); };
  return logits_.index_select(0, row).sub_(of_row(top_)).div_(of_row(temperature_)).sub_(of_row(log_sum_));
}

// With y = z / t, p = softmax(y) and a row's entropy H:
//   d log p_k / dz_i = ([i = k] - p_i) / t,    dH / dz_i = -p_i (log p_i + H) / t
at::Tensor Policy::Gradient(const PolicyTokens& tokens, std::span<const double> by_logprob,
                            std::span<const double> by_entropy, at::Tensor out) const {
  Check(tokens, logits_);
  const auto rows = static_cast<size_t>(logits_.size(0));
  TORCH_CHECK(by_logprob.size() == tokens.row.size() && (by_entropy.empty() || by_entropy.size() == rows),
              "policy: derivatives by ", by_logprob.size(), " log-probs and ", by_entropy.size(), " entropies for ",
              tokens.row.size(), " tokens and ", rows, " rows");
  if (!out.defined()) out = logits_;
  TORCH_CHECK(out.sizes() == logits_.sizes() && out.is_contiguous() && out.device() == logits_.device() &&
                  (out.scalar_type() == logits_.scalar_type() ||
                   (out.scalar_type() == at::kBFloat16 && logits_.scalar_type() == at::kFloat)),
              "policy: gradient of logits ", logits_.sizes(), " ", logits_.scalar_type(), " cannot be ", out.sizes(),
              " ", out.scalar_type());
  const std::vector<double> of_rows = Download(at::stack({temperature_, entropy_}));
  const std::span<const double> temperature(of_rows.data(), rows), entropy(of_rows.data() + rows, rows);
  std::vector<double> of_p(rows), of_plogp(rows), addend(by_logprob.size());
  std::vector<int64_t> first(rows + 1);
  for (size_t r = 0; r < by_entropy.size(); ++r) {
    of_plogp[r] = -by_entropy[r] / temperature[r];
    of_p[r] = of_plogp[r] * entropy[r];
  }
  for (size_t i = 0; i < addend.size(); ++i) {
    const auto r = static_cast<size_t>(tokens.row[i]);
    addend[i] = by_logprob[i] / temperature[r];
    of_p[r] -= addend[i];
    ++first[r + 1];
  }
  for (size_t r = 0; r < rows; ++r) first[r + 1] += first[r];
  const std::vector<at::Tensor> derivatives = UploadLists({&of_p, &of_plogp, &addend}, at::kDouble, logits_.options());
  const at::Tensor &by_p = derivatives[0], &by_plogp = derivatives[1], &added = derivatives[2];
  if (OnDevice(logits_)) {
    static const DeviceOp<PolicyBackwardSignature> op("ingot::policy_backward");
    const at::TensorOptions index = at::dtype(at::kLong).device(logits_.device());
    const std::vector<at::Tensor> places = UploadLists({&first, &tokens.token}, at::kLong, index);
    op(logits_, temperature_, top_, log_sum_, by_p, by_plogp, places[0], places[1], added, soft_cap_, out);
    return out;
  }
  if (!logits_.is_cpu()) {
    const at::Tensor logp = LogSoftmax();
    at::Tensor wide = logp.exp().mul_(logp.mul(by_plogp.unsqueeze(1)).add_(by_p.unsqueeze(1)));
    const at::TensorOptions index = at::dtype(at::kLong).device(logits_.device());
    const at::Tensor row = Upload(tokens.row, at::kLong, index), token = Upload(tokens.token, at::kLong, index);
    AddRows(wide.view({-1}), row * logits_.size(1) + token, added);
    if (soft_cap_ > 0) wide.mul_(1 - logits_.div(soft_cap_).square_());
    return out.copy_(wide);
  }
  ByLogits(logits_, [&](auto zero) {
    using T = decltype(zero);
    const PolicyGradient<T> gradient{Read<T>(by_p), Read<T>(by_plogp), first.data(), tokens.token.data(),
                                     Read<T>(added)};
    if (out.scalar_type() == logits_.scalar_type()) {
      PolicyBackward<T, T>(Rows<T>(), gradient, Write<T>(out), TorchParallelFor());
    } else if constexpr (std::is_same_v<T, float>) {
      PolicyBackward<float, BFloat16>(Rows<float>(), gradient, Write<BFloat16>(out), TorchParallelFor());
    }
  });
  return out;
}

}  // namespace ingot::kernels
