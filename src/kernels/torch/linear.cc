#include "kernels/torch/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "kernels/layers.h"
#include "kernels/products/product.h"
#include "kernels/torch/exact.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// ---- products of gradients

bool OfTiles(const at::Tensor& a) {
  return a.is_cpu() && a.scalar_type() == at::kBFloat16 && a.numel() > 0 && HasTileProduct();
}

// Returns a matrix [outer, depth] that is dense in one of the two dimensions. `held` keeps the tensor that owns the
// data alive.
ProductSide SideOf(const at::Tensor& matrix, std::vector<at::Tensor>& held) {
  const at::Tensor& dense =
      held.emplace_back(matrix.stride(0) == 1 || matrix.stride(1) == 1 ? matrix : matrix.contiguous());
  const bool across = dense.stride(1) != 1;
  return {Read<BFloat16>(dense), dense.stride(across ? 1 : 0), across};
}

// Writes the product to c or wide.
void RunTileProduct(at::TensorList a, at::TensorList b, BFloat16* c, float* wide, bool add) {
  std::vector<at::Tensor> held;
  std::vector<ProductTerm> terms;
  for (size_t i = 0; i < a.size(); ++i) {
    terms.push_back({.a = SideOf(a[i], held), .b = SideOf(b[i].t(), held), .depth = a[i].size(1)});
  }
  TileProduct({.terms = terms, .m = a[0].size(0), .n = b[0].size(1), .c = c, .wide = wide, .add = add},
              TorchParallelFor());
}

void CheckProduct(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && b.scalar_type() == a.scalar_type(),
              "product: ", a.sizes(), " ", a.scalar_type(), " by ", b.sizes(), " ", b.scalar_type());
}

// Returns whether torch has products of the tensor's device that give the sums without rounding them.
bool WideOnDevice(const at::Tensor& a) { return a.is_cuda() && AccumulatorType(a) != a.scalar_type(); }

// ---- layers

// wide = the result has the type of the sums.
at::Tensor LinearForward(const at::Tensor& x_in, const at::Tensor& weight_in, const at::Tensor& bias, bool wide) {
  if (ExactOn(x_in)) return ExactLinear(x_in, weight_in, bias, wide);
  if (!x_in.is_cpu()) return at::mm(x_in, weight_in.t(), AccumulatorType(x_in));  // WideOnDevice
  const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
  const at::ScalarType type = wide ? AccumulatorType(x) : x.scalar_type();
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options().dtype(type));
  ByType(x, [&](auto zero) {
    using T = decltype(zero);
    LinearArgs<T> args{Read<T>(x), Read<T>(weight), Read<T>(bias), nullptr, x.size(0), x.size(1), weight.size(0), 0};
    if (type == x.scalar_type()) {
      args.y = Write<T>(y);
    } else {
      args.wide = Write<Accumulator<T>>(y);
    }
    Linear<T>(args, TorchParallelFor());
  });
  return y;
}

at::Tensor BiasOf(at::TensorList biases, size_t i) { return biases.empty() ? at::Tensor() : biases[i]; }

class LinearsFunction : public Function<LinearsFunction> {
 public:
  // parameters: the weights, then the defined biases. bias_of[i]: the index of layer i's bias; -1 = none.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, at::TensorList parameters,
                               const std::vector<int64_t>& bias_of, bool wide) {
    const at::NoGradGuard no_grad;
    variable_list saved = {x}, results;
    for (size_t i = 0; i < bias_of.size(); ++i) {
      const at::Tensor bias = bias_of[i] < 0 ? at::Tensor() : parameters[static_cast<size_t>(bias_of[i])];
      results.push_back(LinearForward(x, parameters[i], bias, wide));
      saved.push_back(parameters[i]);
    }
    context->save_for_backward(std::move(saved));
    context->saved_data["bias_of"] = bias_of;
    context->set_materialize_grads(false);
    return results;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const std::vector<int64_t> bias_of = context->saved_data["bias_of"].toIntVector();
    const at::Tensor& x = saved[0];
    const auto parameters = bias_of.size() + static_cast<size_t>(std::count_if(bias_of.begin(), bias_of.end(),
                                                                               [](int64_t at) { return at >= 0; }));
    variable_list out(1 + parameters + 2), by_results, weights;  // undefined if an argument is not a tensor
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      const at::Tensor& grad = by_results.emplace_back(grads[i].to(x.scalar_type()));
      weights.push_back(saved[1 + i]);
      if (context->needs_input_grad(1 + i)) out[1 + i] = Product(grad.t(), x);
      if (bias_of[i] < 0) continue;
      if (const auto at = 1 + static_cast<size_t>(bias_of[i]); context->needs_input_grad(at)) out[at] = grad.sum(0);
    }
    if (!by_results.empty() && context->needs_input_grad(0)) out[0] = SumOfProducts(by_results, weights);
    return out;
  }
};

std::vector<at::Tensor> AnyLinears(const at::Tensor& x, at::TensorList weights, at::TensorList biases, bool wide) {
  TORCH_CHECK(!weights.empty() && (biases.empty() || biases.size() == weights.size()), "linear: ", weights.size(),
              " weights, ", biases.size(), " biases");
  bool needs_grad = NeedsGrad(x);
  std::vector<at::Tensor> parameters = weights.vec();
  std::vector<int64_t> bias_of(weights.size(), -1);
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor &weight = weights[i], bias = BiasOf(biases, i);
    TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                    (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0))),
                "linear: input ", x.sizes(), " does not match weight ", weight.sizes());
    CheckSame("linear", x, weight);
    CheckSame("linear", x, bias);
    needs_grad = needs_grad || NeedsGrad(weight, bias);
    if (!bias.defined()) continue;
    bias_of[i] = static_cast<int64_t>(parameters.size());
    parameters.push_back(bias);
  }
  const bool own = Native(x) || ExactOn(x) || (wide && biases.empty() && WideOnDevice(x));
  if (own && needs_grad) return LinearsFunction::apply(x, at::TensorList(parameters), bias_of, wide);
  const bool together = weights.size() == 2 || weights.size() == 3;
  if (together && !wide && ExactOn(x) && x.size(0) > 0) return ExactLinears(x, weights, biases);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor bias = BiasOf(biases, i);
    if (own) {
      results.push_back(LinearForward(x, weights[i], bias, wide));
    } else {
      const at::Tensor y = at::linear(x, weights[i], bias);
      results.push_back(wide ? y.to(AccumulatorType(x)) : y);
    }
  }
  return results;
}

}  // namespace

at::Tensor Product(const at::Tensor& a, const at::Tensor& b, at::Tensor out) { return SumOfProducts(a, b, out); }

at::Tensor SumOfProducts(at::TensorList a, at::TensorList b, at::Tensor out) {
  const at::NoGradGuard no_history;
  TORCH_CHECK(!a.empty() && a.size() == b.size(), "product: ", a.size(), " by ", b.size(), " matrices");
  for (size_t i = 0; i < a.size(); ++i) {
    CheckProduct(a[i], b[i]);
    TORCH_CHECK(
        a[i].size(0) == a[0].size(0) && b[i].size(1) == b[0].size(1) && a[i].scalar_type() == a[0].scalar_type(),
        "product: ", a[i].sizes(), " by ", b[i].sizes(), " cannot be added to ", a[0].sizes(), " by ", b[0].sizes());
  }
  if (!std::all_of(a.begin(), a.end(), OfTiles)) {
    at::Tensor sum = out.defined() ? at::mm_out(out, a[0], b[0]) : at::mm(a[0], b[0]);
    for (size_t i = 1; i < a.size(); ++i) sum.addmm_(a[i], b[i]);
    return sum;
  }
  if (!out.defined()) out = at::empty({a[0].size(0), b[0].size(1)}, a[0].options());
  TORCH_CHECK(out.is_contiguous() && out.dim() == 2 && out.size(0) == a[0].size(0) && out.size(1) == b[0].size(1) &&
                  out.scalar_type() == at::kBFloat16,
              "product: ", a[0].sizes(), " by ", b[0].sizes(), " cannot be ", out.sizes(), " ", out.scalar_type());
  RunTileProduct(a, b, Write<BFloat16>(out), nullptr, /*add=*/false);
  return out;
}

void AddProduct(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_history;
  const at::ScalarType type = AccumulatorType(a);
  const bool add = sum.defined();
  TORCH_CHECK(!add || (sum.is_contiguous() && sum.dim() == 2 && sum.size(0) == a.size(0) && sum.size(1) == b.size(1) &&
                       sum.scalar_type() == type),
              "product: ", a.sizes(), " by ", b.sizes(), " cannot be added to ", sum.sizes());
  if (OfTiles(a)) {
    CheckProduct(a, b);
    if (!add) sum = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
    return RunTileProduct(a, b, nullptr, Write<float>(sum), add);
  }
  if (WideOnDevice(a)) {
    CheckProduct(a, b);
    if (add) {
      at::addmm_out(sum, sum, a, b, type);
    } else {
      sum = at::mm(a, b, type);
    }
    return;
  }
  const at::Tensor part = at::mm(a, b);
  sum = add ? sum.add_(part) : part.to(type);
}

at::Tensor LinearOp(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return AnyLinears(x, weight, bias, /*wide=*/false)[0];
}

std::vector<at::Tensor> LinearsOp(const at::Tensor& x, at::TensorList weights, at::TensorList biases) {
  return AnyLinears(x, weights, biases, /*wide=*/false);
}

at::Tensor WideLinearOp(const at::Tensor& x, const at::Tensor& weight) {
  return AnyLinears(x, weight, {}, /*wide=*/true)[0];
}

}  // namespace ingot::kernels
