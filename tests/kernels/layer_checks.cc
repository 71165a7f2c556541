#include "kernels/layer_checks.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/torch/layers.h"
#include "kernels/torch/softmax.h"

namespace ingot::kernels::testing {
namespace {

using Tensors = std::vector<at::Tensor>;
using Report = std::function<void(const CheckResult&)>;

constexpr double kEps = 1e-5;

// A layer function of `rows`, whose first dimension is the same, and of tensors that all rows share.
struct Layer {
  std::string name;
  Tensors rows, shared;
  std::function<Tensors(const Tensors& rows, const Tensors& shared)> run;
};

Tensors On(const Tensors& tensors, at::Device device) {
  Tensors moved;
  for (const at::Tensor& t : tensors) {
    moved.push_back(t.detach().to(device).requires_grad_(at::isFloatingType(t.scalar_type())));
  }
  return moved;
}

Tensors FirstRows(const Tensors& tensors, int64_t begin, int64_t count) {
  Tensors some;
  for (const at::Tensor& t : tensors) some.push_back(t.narrow(0, begin, count));
  return some;
}

// The results, and then the gradients of all arguments that have one, of a loss that mixes the results.
Tensors RunOn(const Layer& layer, const Tensors& rows, const Tensors& mix, at::Device device) {
  const Tensors of_rows = On(rows, device), shared = On(layer.shared, device);
  const Tensors results = layer.run(of_rows, shared);
  Tensors grads, all;
  for (size_t i = 0; i < results.size(); ++i) grads.push_back(mix[i].to(device));
  torch::autograd::backward(results, grads);
  for (const at::Tensor& t : results) all.push_back(t.detach().to(at::kCPU));
  for (const Tensors* arguments : {&of_rows, &shared}) {
    for (const at::Tensor& t : *arguments) {
      if (t.grad().defined()) all.push_back(t.grad().to(at::kCPU));
    }
  }
  return all;
}

double RelativeError(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor wide = want.to(at::kDouble);
  return ((got.to(at::kDouble) - wide).norm() / wide.norm().clamp_min(1e-30)).item<double>();
}

void Check(const Layer& layer, at::ScalarType type, at::Device device, const Report& report) {
  const auto typed = [&](Tensors tensors) {
    for (at::Tensor& t : tensors) t = at::isFloatingType(t.scalar_type()) ? t.to(type) : t;
    return tensors;
  };
  Layer of = layer;
  of.rows = typed(layer.rows);
  of.shared = typed(layer.shared);
  Tensors mix;
  {
    const at::NoGradGuard no_history;
    for (const at::Tensor& t : of.run(of.rows, of.shared)) mix.push_back(at::randn_like(t));
  }
  const Tensors want = RunOn(of, of.rows, mix, at::kCPU), got = RunOn(of, of.rows, mix, device);
  // The devices add in other orders. A bf16 result that is near the middle of two neighbors is rounded to the other
  // one.
  const double allowed = type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-6 : 4e-3;
  double error = want.size() == got.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i)
    error = std::max(error, RelativeError(got[i], want[i]));
  const std::string name = layer.name + " in " + c10::toString(type);
  report({name + ": the CPU's results and gradients", error, allowed});

  // Results and gradients of rows alone. The shared tensors' gradients, at the end, are sums over rows.
  const int64_t rows = of.rows[0].size(0);
  bool same = true;
  for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) {
    const Tensors alone = RunOn(of, FirstRows(of.rows, row, 1), FirstRows(mix, row, 1), device);
    for (size_t i = 0; i < got.size() && got[i].size(0) == rows; ++i) {
      same = same && at::equal(alone[i], got[i].narrow(0, row, 1));
    }
  }
  report({name + ": a row's bits alone", same ? 0.0 : 1.0, 0});
}

Tensors ResidualNorm(const Tensors& rows, const Tensors& shared) {
  const Residual both = ResidualNormOp(rows[0], rows[1], shared[0], kEps);
  return {both.sum, both.normed};
}

}  // namespace

void CheckLayers(at::Device device, const Report& report, bool small) {
  const int64_t rows = small ? 37 : 1000, depth = small ? 20 : 128, heads = 4;
  const auto normal = [](at::IntArrayRef sizes) { return at::randn(sizes); };
  const at::Tensor positions = at::randint(90, {rows}, at::kLong);
  const Tensors tables{normal({90, depth / 2}), normal({90, depth / 2})};
  std::vector<Layer> layers;
  for (const int64_t width : {int64_t{21}, small ? int64_t{64} : int64_t{4096}, small ? int64_t{300} : int64_t{5000}}) {
    const std::string wide = " of width " + std::to_string(width);
    layers.push_back(
        {"RMSNorm" + wide, {normal({rows, width})}, {normal({width})}, [](const Tensors& r, const Tensors& s) {
           return Tensors{RmsNormOp(r[0], s[0], kEps)};
         }});
    layers.push_back(
        {"residual RMSNorm" + wide, {normal({rows, width}), normal({rows, width})}, {normal({width})}, ResidualNorm});
    layers.push_back({"SwiGLU" + wide, {normal({rows, width}), normal({rows, width})}, {}, [](const Tensors& r, auto&) {
                        return Tensors{SwiGluOp(r[0], r[1])};
                      }});
  }
  layers.push_back({"RMSNorm and RoPE",
                    {normal({rows, heads, depth}), positions},
                    {normal({depth})},
                    [tables](const Tensors& r, const Tensors& s) {
                      const auto at = [&](int i) { return tables[i].to(r[0].options().requires_grad(false)); };
                      return Tensors{NormRotateOp(r[0], s[0], kEps, at(0), at(1), r[1])};
                    }});
  layers.push_back({"RoPE", {normal({rows, heads, depth}), positions}, {}, [tables](const Tensors& r, auto&) {
                      const auto at = [&](int i) { return tables[i].to(r[0].options().requires_grad(false)); };
                      return Tensors{NormRotateOp(r[0], {}, kEps, at(0), at(1), r[1])};
                    }});
  for (const Layer& layer : layers) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) Check(layer, type, device, report);
  }
}

void CheckPolicy(at::Device device, const Report& report, bool small) {
  const int64_t rows = small ? 9 : 40;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const int64_t vocab : {int64_t{37}, small ? int64_t{9001} : int64_t{151936}}) {
      const at::Tensor logits = at::randn({rows, vocab}, type) * 4, temperature = at::rand({rows}, type) + 0.5;
      PolicyTokens tokens;
      for (int64_t r = 0; r < rows; r += 2) {
        for (const int64_t token : {vocab - 1, int64_t{3}, int64_t{3}}) {
          tokens.row.push_back(r);
          tokens.token.push_back(token);
        }
      }
      const std::vector<double> by_logprob(tokens.row.size(), 0.3), by_entropy(static_cast<size_t>(rows), -0.1);
      const auto results = [&](at::Device where) {
        const Policy policy(logits.to(where), temperature.to(where));
        const at::Tensor scored = at::tensor(policy.LogProbs(tokens), at::kDouble);
        return Tensors{
            policy.LogSoftmax(), scored, policy.entropy(), policy.LogNormalizers(),
            policy.Gradient(tokens, by_logprob, by_entropy, at::empty_like(logits, logits.options().device(where)))};
      };
      const Tensors want = results(at::kCPU), got = results(device);
      double error = 0;
      for (size_t i = 0; i < want.size(); ++i) error = std::max(error, RelativeError(got[i].to(at::kCPU), want[i]));
      const std::string name = "policy of " + std::to_string(vocab) + " in " + c10::toString(type);
      report({name + ": the CPU's results and gradients", error, type == at::kDouble ? 1e-13 : 3e-6});
      const std::vector<int64_t> chosen{rows - 1, 0};
      const Policy policy(logits.to(device), temperature.to(device));
      bool same = at::equal(policy.LogSoftmaxOf(chosen).to(at::kCPU)[1], got[0].to(at::kCPU)[0]);
      for (const int64_t row : {int64_t{0}, rows - 1}) {
        const Policy alone(logits.narrow(0, row, 1).to(device), temperature.narrow(0, row, 1).to(device));
        same = same && at::equal(alone.LogSoftmax().to(at::kCPU)[0], got[0].to(at::kCPU)[row]);
      }
      same = same && got[1][0].item<double>() == got[0].to(at::kCPU)[0][vocab - 1].to(at::kDouble).item<double>();
      report({name + ": a row's bits alone", same ? 0.0 : 1.0, 0});
    }
  }
}

}  // namespace ingot::kernels::testing
