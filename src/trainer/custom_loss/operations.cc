#include "trainer/custom_loss/operations.h"

#include <algorithm>

namespace ingot::trainer {
namespace {

constexpr auto kEach = OperationKind::kPerToken;
constexpr auto kWhole = OperationKind::kWhole;
constexpr auto kSegments = OperationKind::kSegments;

constexpr Operation kOperations[] = {
    // arithmetic
    {"aten::add.Tensor", kEach},
    {"aten::add.Scalar", kEach},
    {"aten::sub.Tensor", kEach},
    {"aten::sub.Scalar", kEach},
    {"aten::rsub.Tensor", kEach},
    {"aten::rsub.Scalar", kEach},
    {"aten::mul.Tensor", kEach},
    {"aten::mul.Scalar", kEach},
    {"aten::div.Tensor", kEach},
    {"aten::div.Scalar", kEach},
    {"aten::neg", kEach},
    {"aten::abs", kEach},
    {"aten::sign", kEach},
    {"aten::reciprocal", kEach},
    {"aten::pow.Tensor_Scalar", kEach},
    {"aten::pow.Tensor_Tensor", kEach},
    {"aten::pow.Scalar", kEach},
    {"aten::sqrt", kEach},
    {"aten::rsqrt", kEach},
    {"aten::lerp.Scalar", kEach},
    {"aten::lerp.Tensor", kEach},
    // exponentials and gates
    {"aten::exp", kEach},
    {"aten::expm1", kEach},
    {"aten::log", kEach},
    {"aten::log1p", kEach},
    {"aten::logaddexp", kEach},
    {"aten::sigmoid", kEach},
    {"aten::log_sigmoid_forward", kEach},
    {"aten::softplus", kEach},
    {"aten::tanh", kEach},
    {"aten::relu", kEach},
    {"aten::erf", kEach},
    // bounds and choices
    {"aten::clamp", kEach},
    {"aten::clamp.Tensor", kEach},
    {"aten::clamp_min", kEach},
    {"aten::clamp_min.Tensor", kEach},
    {"aten::clamp_max", kEach},
    {"aten::clamp_max.Tensor", kEach},
    {"aten::minimum", kEach},
    {"aten::maximum", kEach},
    {"aten::where.self", kEach},
    {"aten::masked_fill.Scalar", kEach},
    {"aten::masked_fill.Tensor", kEach},
    {"aten::nan_to_num", kEach},
    // comparisons and logic
    {"aten::eq.Scalar", kEach},
    {"aten::eq.Tensor", kEach},
    {"aten::ne.Scalar", kEach},
    {"aten::ne.Tensor", kEach},
    {"aten::lt.Scalar", kEach},
    {"aten::lt.Tensor", kEach},
    {"aten::le.Scalar", kEach},
    {"aten::le.Tensor", kEach},
    {"aten::gt.Scalar", kEach},
    {"aten::gt.Tensor", kEach},
    {"aten::ge.Scalar", kEach},
    {"aten::ge.Tensor", kEach},
    {"aten::isnan", kEach},
    {"aten::isinf", kEach},
    {"aten::logical_and", kEach},
    {"aten::logical_or", kEach},
    {"aten::logical_xor", kEach},
    {"aten::logical_not", kEach},
    {"aten::bitwise_and.Tensor", kEach},
    {"aten::bitwise_or.Tensor", kEach},
    {"aten::bitwise_xor.Tensor", kEach},
    {"aten::bitwise_not", kEach},
    // constants, copies, and types
    {"aten::detach", kEach},
    {"aten::alias", kEach},
    {"aten::clone", kEach},
    {"aten::_to_copy", kEach},
    {"aten::zeros_like", kEach},
    {"aten::ones_like", kEach},
    {"aten::full_like", kEach},
    // over all tokens
    {"aten::sum", kWhole},
    {"aten::sum.dim_IntList", kWhole},
    {"aten::mean", kWhole},
    {"aten::mean.dim", kWhole},
    {"aten::prod", kWhole},
    {"aten::std.correction", kWhole},
    {"aten::var.correction", kWhole},
    {"aten::min", kWhole},
    {"aten::max", kWhole},
    {"aten::amin", kWhole},
    {"aten::amax", kWhole},
    {"aten::any", kWhole},
    {"aten::all", kWhole},
    {"aten::logsumexp", kWhole},
    {"aten::_softmax", kWhole},
    {"aten::_log_softmax", kWhole},
    {"aten::cumsum", kWhole},
    {"aten::flip", kWhole},
    // over the tokens of a call or an episode
    {"aten::index_add", kSegments},
    {"aten::index_select", kSegments},
};

}  // namespace

std::span<const Operation> LossOperations() { return kOperations; }

const Operation* FindLossOperation(std::string_view name) {
  const Operation* found = std::ranges::find(kOperations, name, &Operation::name);
  return found == std::end(kOperations) ? nullptr : found;
}

}  // namespace ingot::trainer
