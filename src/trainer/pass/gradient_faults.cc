#include "trainer/pass/gradient_faults.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace ingot::trainer {
namespace {

constexpr size_t kNamedCalls = 4;

int64_t CountNonFinite(const at::Tensor& tensor) {
  const at::NoGradGuard no_history;
  if (!tensor.defined() || tensor.storage().nbytes() == 0) return 0;  // another rank holds and checks this tensor
  return tensor.numel() - at::isfinite(tensor).sum().item<int64_t>();
}

// Returns "tensor NAME: 3 of 256 elements of its `what` are not finite; 2 more tensors too", or "" if all are finite.
std::string NonFinite(const std::map<std::string, at::Tensor>& tensors, const char* what) {
  std::string text;
  int64_t more = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t count = CountNonFinite(tensor);
    if (count > 0 && !text.empty()) ++more;
    if (count == 0 || !text.empty()) continue;
    text = absl::StrCat("tensor ", name, ": ", count, " of ", tensor.numel(), " elements of its ", what,
                        " are not finite");
  }
  return more == 0 ? text : absl::StrCat(text, "; ", more, " more tensors as well");
}

void ResetGradients(const model::Transformer& model) {
  for (const auto& [name, tensor] : model.parameters().tensors()) at::Tensor(tensor).mutable_grad().reset();
}

}  // namespace

std::string NonFiniteTensors(const model::Transformer& model, const std::map<std::string, at::Tensor>& gradients) {
  const std::string text = NonFinite(model.parameters().tensors(), "weights");
  return text.empty() ? NonFinite(gradients, "gradient") : text;
}

absl::Status CheckFinite(const model::Parameters& parameters) {
  const std::string text = NonFinite(parameters.tensors(), "weights");
  if (text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the model cannot be trained: ", text, "; use an earlier checkpoint or another model"));
}

std::vector<int32_t> CallsWithoutFiniteGradient(const model::Transformer& model, const PreparedBatch& batch,
                                                std::span<const int32_t> calls, StepLoss& loss,
                                                const PassOptions& options, size_t limit) {
  std::vector<int32_t> found;
  for (const int32_t alone : calls) {
    if (found.size() >= limit) break;
    auto forest = tree::PackForest(batch.calls, std::span(&alone, 1));
    if (!forest.ok()) continue;
    std::erase_if(forest->entries, [&](const tree::LossEntry& entry) { return !StepLoss::Bears(batch, entry); });
    ResetGradients(model);
    AccumulateGradients(model, *forest, batch.calls, loss, options);
    const auto& tensors = model.parameters().tensors();
    const bool finite = std::all_of(tensors.begin(), tensors.end(),
                                    [](const auto& named) { return CountNonFinite(named.second.grad()) == 0; });
    if (!finite) found.push_back(alone);
  }
  ResetGradients(model);
  return found;
}

std::string NameCalls(const PreparedBatch& batch, std::vector<int32_t> calls) {
  if (calls.empty()) return "no single call";
  std::sort(calls.begin(), calls.end());
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  std::string text = calls.size() == 1 ? "call " : "calls ";
  for (size_t i = 0; i < std::min(calls.size(), kNamedCalls); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", batch.calls[static_cast<size_t>(calls[i])].call_id);
  }
  if (calls.size() > kNamedCalls) absl::StrAppend(&text, " and at least ", calls.size() - kNamedCalls, " more");
  return text;
}

}  // namespace ingot::trainer
