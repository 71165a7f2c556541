// A layer on a device: its launches, and the arguments that its operators refuse. Runs under standin.py, as
// step_test.cc.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/torch/device_op.h"
#include "kernels/torch/layers.h"
#include "kernels/torch/layers_ops.h"
#include "kernels/torch/softmax.h"
#include "kernels/torch/softmax_ops.h"
#include "kernels/torch/tree_attention.h"
#include "trainer/tiny_model.h"

namespace ingot::trainer {
namespace {

using kernels::DeviceOp;

constexpr int64_t kRows = 9;

// What the stand-in has counted (runtime/standin.h).
uint64_t Count(const char* what) {
  const auto count = reinterpret_cast<uint64_t (*)()>(::dlsym(RTLD_DEFAULT, what));
  EXPECT_NE(count, nullptr) << what;
  return count == nullptr ? 0 : count();
}

struct Counts {
  uint64_t launches = Count("ingot_standin_launches"), operators = Count("ingot_standin_operators");
  Counts Since(const Counts& before) const {
    Counts since;
    since.launches = launches - before.launches;
    since.operators = operators - before.operators;
    return since;
  }
};

class Causal : public model::AttentionBackend {
 public:
  at::Tensor Attend(int64_t, const model::AttentionInput& in) override {
    return kernels::TreeAttention(in.q, in.k, in.v, at::full({kRows}, kRows, at::kInt), 0.3);
  }
};

void OpenDevice() {
  const char* const path = std::getenv("INGOT_CUDA_LIBRARY");
  ASSERT_NE(::dlopen(path == nullptr ? "" : path, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
  at::globalContext().lazyInitDevice(at::kCUDA);
}

const at::Device kDevice{at::kCUDA, 0};

class LayerOnDevice : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { OpenDevice(); }
  at::Tensor Random(at::IntArrayRef sizes) const { return at::randn(sizes).to(kDevice, GetParam()); }
};

struct LayerCounts {
  Counts forward, backward;
};

// Counts a layer's forward pass without history, and its backward pass.
LayerCounts CountLayer(at::ScalarType type) {
  const model::ModelConfig config = TinyConfig();
  model::Parameters parameters = TinyParameters(config, 1, type);
  for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(kDevice);
  const model::Transformer transformer = TrainableModel(config, parameters);
  const at::Tensor x = at::randn({kRows, config.hidden_size}).to(kDevice, type);
  const at::Tensor positions = at::arange(kRows, at::kLong).to(kDevice);
  Causal attention;
  const auto run = [&](const at::Tensor& input) { return transformer.RunLayer(0, input, positions, attention); };
  LayerCounts counts;
  {
    const at::NoGradGuard no_history;
    const Counts before;
    run(x);
    counts.forward = Counts().Since(before);
  }
  const at::Tensor leaf = x.clone().requires_grad_(true), result = run(leaf), grad = at::ones_like(result);
  const Counts before;
  result.backward(grad);
  counts.backward = Counts().Since(before);
  std::printf("%s: forward %d launches and %d operators, backward %d launches and %d operators\n", c10::toString(type),
              static_cast<int>(counts.forward.launches), static_cast<int>(counts.forward.operators),
              static_cast<int>(counts.backward.launches), static_cast<int>(counts.backward.operators));
  return counts;
}

// Norms, rotations, attention, and SwiGLU are one launch each, and in the backward pass two if they have a weight. torch
// adds the products and the sums of residuals and gradients.
TEST_P(LayerOnDevice, HasFewLaunches) {
  const LayerCounts counts = CountLayer(GetParam());
  EXPECT_GE(counts.forward.launches, 6U);
  EXPECT_LE(counts.forward.operators, 8U) << "seven products and a sum";
  EXPECT_GE(counts.backward.launches, 9U);
}

// fp16 has no kernels but attention's, so ATen computes the rest.
TEST(LayerOnDeviceInFp16, HasMoreOperators) {
  OpenDevice();
  const LayerCounts own = CountLayer(at::kBFloat16), torchs = CountLayer(at::kHalf);
  EXPECT_GT(torchs.forward.operators, own.forward.launches + own.forward.operators);
  EXPECT_GT(torchs.backward.operators, own.backward.launches + own.backward.operators);
}

TEST_P(LayerOnDevice, HasThePolicysOwnKernels) {
  const at::Tensor logits = at::randn({5, 300}).to(kDevice), temperature = at::ones({5}).to(kDevice);
  const Counts before;
  const kernels::Policy policy(logits, temperature);
  policy.LogSoftmax(/*overwrite_logits=*/true);
  const Counts counts = Counts().Since(before);
  EXPECT_EQ(counts.launches, 3U);
  EXPECT_EQ(counts.operators, 0U);
}

// The message names the operator and what does not fit.
template <typename F>
void ExpectRefusal(const std::string& words, const F& f) {
  try {
    f();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_P(LayerOnDevice, RefusesTensorsThatDoNotFit) {
  using namespace kernels;  // NOLINT: signatures
  const at::Tensor x = Random({4, 6}), weight = Random({6}), y = at::empty_like(x), wide = Random({4, 7});
  const DeviceOp<RmsNormSignature> norm("ingot::rms_norm");
  ExpectRefusal("rms_norm: the weight", [&] { norm(x, std::nullopt, wide[0], 1e-5, std::nullopt, y, std::nullopt); });
  ExpectRefusal("rms_norm: the result", [&] { norm(x, std::nullopt, weight, 1e-5, std::nullopt, wide, std::nullopt); });
  ExpectRefusal("rms_norm: x must be", [&] { norm(x, x, weight, 1e-5, std::nullopt, y, std::nullopt); });
  ExpectRefusal("rms_norm: the weight",
                [&] { norm(x, std::nullopt, weight.cpu(), 1e-5, std::nullopt, y, std::nullopt); });
  ExpectRefusal("rms_norm: the factors", [&] { norm(x, std::nullopt, weight, 1e-5, std::nullopt, y, x[0]); });
  ExpectRefusal("rms_norm_backward: the gradient", [&] {
    DeviceOp<RmsNormBackwardSignature>("ingot::rms_norm_backward")(x.t(), std::nullopt, x, weight, x, y, weight);
  });
  const at::Tensor heads = Random({4, 2, 6}), table = Random({9, 3}), positions = at::arange(4, at::kLong).to(kDevice);
  const DeviceOp<NormRotateSignature> rotate("ingot::norm_rotate");
  const at::Tensor turned = at::empty_like(heads);
  ExpectRefusal("norm_rotate: cos",
                [&] { rotate(heads, std::nullopt, 1e-5, Random({9, 4}), table, positions, turned, std::nullopt); });
  ExpectRefusal("norm_rotate: positions",
                [&] { rotate(heads, std::nullopt, 1e-5, table, table, positions.to(at::kInt), turned, std::nullopt); });
  ExpectRefusal("an even head_dim",
                [&] { rotate(Random({4, 2, 5}), std::nullopt, 1e-5, table, table, positions, turned, std::nullopt); });
  ExpectRefusal("norm_rotate_backward: x, factors", [&] {
    DeviceOp<NormRotateBackwardSignature>("ingot::norm_rotate_backward")(heads, std::nullopt, weight, std::nullopt,
                                                                         table, table, positions, turned, std::nullopt);
  });
  ExpectRefusal("swiglu: up", [&] { DeviceOp<SwiGluSignature>("ingot::swiglu")(x, wide, y); });
  ExpectRefusal("swiglu_backward: the gradient of up",
                [&] { DeviceOp<SwiGluBackwardSignature>("ingot::swiglu_backward")(x, x, x, y, wide); });
  const at::Tensor logits = at::randn({4, 6}).to(kDevice), of_rows = at::ones({4}).to(kDevice);
  ExpectRefusal("policy_sums: values of rows", [&] {
    DeviceOp<PolicySumsSignature>("ingot::policy_sums")(logits, of_rows, logits, of_rows, of_rows);
  });
  ExpectRefusal("policy_log_probs: the result", [&] {
    DeviceOp<PolicyLogProbsSignature>("ingot::policy_log_probs")(logits, of_rows, of_rows, of_rows, positions, of_rows);
  });
}

INSTANTIATE_TEST_SUITE_P(Types, LayerOnDevice, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

}  // namespace
}  // namespace ingot::trainer
