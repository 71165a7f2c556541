// The head's pass on a device: its results, their bits, and its memory. Runs under standin.py; INGOT_CUDA_LIBRARY names
// libingot_cuda.so.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "standin/trainer/open_device.h"
#include "trainer/pass/head_pass.h"
#include "trainer/tiny_model.h"

namespace ingot::trainer {
namespace {

constexpr int64_t kVocab = 1003;
const at::Device kDevice{at::kCUDA, 0};

// Entries of one or two temperatures on most rows, some of them with the same token.
struct Work {
  tree::PackedForest forest;
  std::vector<tree::CallPath> calls;

  explicit Work(int32_t rows) {
    for (const float temperature : {1.0f, 0.7f}) calls.emplace_back().temperature = temperature;
    for (int32_t call = 0; call < 2; ++call) {
      for (int32_t row = 0; row < rows; ++row) {
        if (row % 5 == 3 || row % 3 < call) continue;
        forest.entries.push_back({row, (row * 7 + call * (row % 2)) % static_cast<int32_t>(kVocab), call, row});
      }
    }
  }
};

// A weighted sum of the entries' log-probs and entropies.
class WeightedSum final : public EntryLoss {
 public:
  static double OfLogprob(const tree::LossEntry& e) { return 0.01 * (e.row % 11 - 5); }
  static double OfEntropy(const tree::LossEntry& e) { return 0.002 * (e.row % 3); }

  bool uses_entropy() const override { return true; }
  double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs,
                  std::span<const double> entropy, std::span<double> by_logprob,
                  std::span<double> by_entropy) override {
    double sum = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      by_logprob[i] = OfLogprob(entries[i]);
      by_entropy[i] = OfEntropy(entries[i]);
      sum += by_logprob[i] * logprobs[i] + by_entropy[i] * entropy[i];
    }
    return sum;
  }
};

constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::DeviceAllocator& Allocator() { return *c10::getDeviceAllocator(kDevice.type()); }
int64_t AllocatedBytes() { return Allocator().getDeviceStats(0).allocated_bytes[kAllPools].current; }
int64_t PeakBytes() { return Allocator().getDeviceStats(0).allocated_bytes[kAllPools].peak; }

struct Outcome {
  at::Tensor logprobs, by_x;
  std::map<std::string, at::Tensor> gradients;
  int64_t peak_bytes = 0;  // on the device, in addition to what was there before
};

class HeadOnDevice : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { ASSERT_TRUE(OpenDevice()); }

  model::Transformer Model() const {
    model::ModelConfig config = TinyConfig(kVocab);
    model::Parameters parameters = TinyParameters(config, 1, GetParam());
    for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(kDevice);
    return TrainableModel(config, parameters);
  }
  // The same for every call.
  at::Tensor Rows(int64_t rows) const {
    const at::Tensor all = at::arange(rows * 16, at::kDouble).mul_(0.37).sin_().view({rows, 16});
    return all.to(GetParam()).to(kDevice);
  }
  // Calls the pass once; `chunk_rows` rows of logits are in memory at a time.
  Outcome Run(const model::Transformer& model, const Work& work, const at::Tensor& x, int64_t chunk_rows) const {
    TakeGradients(model);
    WeightedSum loss;
    const PolicyReader reader;
    HeadPass pass(model, work.forest, work.calls, &loss, chunk_rows * kVocab, reader);
    Outcome outcome;
    const int64_t before = AllocatedBytes();
    Allocator().resetPeakStats(0);
    outcome.by_x = pass.Run(0, static_cast<int32_t>(x.size(0)), x);
    outcome.peak_bytes = PeakBytes() - before;
    outcome.logprobs = at::tensor(pass.result().logprobs, at::kDouble);
    outcome.gradients = TakeGradients(model);
    return outcome;
  }
};

double Error(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor wide = want.to(at::kDouble);
  return ((got.to(at::kCPU, at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

// Against autograd over fp64 logits of all rows, from the pass's own rows after the norm. The gradient with respect to
// logits is rounded to the model's type.
TEST_P(HeadOnDevice, HasTheLogProbsAndGradientsOfTheWholePolicy) {
  const bool narrow = GetParam() == at::kBFloat16;
  const model::Transformer model = Model();
  const Work work(150);
  const at::Tensor x = Rows(150), normed = model.Norm(x).detach().to(at::kCPU, at::kDouble).requires_grad_(true);
  const at::Tensor weight = model.head().detach().to(at::kCPU, at::kDouble).requires_grad_(true);
  at::Tensor loss = at::zeros({}, at::kDouble);
  std::vector<at::Tensor> logprobs;
  for (const float temperature : {1.0f, 0.7f}) {
    const at::Tensor all = at::log_softmax(normed.mm(weight.t()) / static_cast<double>(temperature), 1);
    const at::Tensor entropy = -(all.exp() * all).sum(1);
    for (const tree::LossEntry& e : work.forest.entries) {
      if (work.calls[static_cast<size_t>(e.call)].temperature != temperature) continue;
      logprobs.push_back(all[e.row][e.token]);
      loss = loss + logprobs.back() * WeightedSum::OfLogprob(e) + entropy[e.row] * WeightedSum::OfEntropy(e);
    }
  }
  loss.backward();
  const at::Tensor want = at::stack(logprobs).detach();
  const at::Tensor input = x.detach().requires_grad_(true);
  model.Norm(input).backward(normed.grad().to(kDevice, GetParam()));
  for (const int64_t chunk_rows : {1, 7, 1000}) {
    const Outcome got = Run(model, work, x, chunk_rows);
    EXPECT_LT((got.logprobs - want).abs().max().item<double>(), 1e-6 * want.abs().max().item<double>()) << chunk_rows;
    EXPECT_LT(Error(got.gradients.at("model.embed_tokens.weight"), weight.grad()), narrow ? 4e-3 : 1e-6) << chunk_rows;
    EXPECT_LT(Error(got.by_x, input.grad().to(at::kCPU)), narrow ? 1e-2 : 1e-6) << chunk_rows;
  }
}

// The stand-in's operators add rows in another order each time.
TEST_P(HeadOnDevice, HasTheSameBitsAgain) {
  const model::Transformer model = Model();
  const Work work(150);
  const at::Tensor x = Rows(150);
  for (const int64_t chunk_rows : {7, 1000}) {
    const Outcome first = Run(model, work, x, chunk_rows), again = Run(model, work, x, chunk_rows);
    EXPECT_TRUE(at::equal(again.logprobs, first.logprobs));
    EXPECT_TRUE(at::equal(again.by_x, first.by_x));
    for (const auto& [name, gradient] : first.gradients)
      EXPECT_TRUE(at::equal(again.gradients.at(name), gradient)) << name;
  }
}

// Four times as many rows need as many more of the rows' own tensors, but no more logits. The weight's gradient needs its
// sum in fp32 and the rounded result, and no third matrix.
TEST_P(HeadOnDevice, HoldsAChunkOfLogits) {
  const model::Transformer model = Model();
  constexpr int32_t kRows = 400;
  constexpr int64_t kChunk = 2;
  const bool narrow = GetParam() == at::kBFloat16;
  const int64_t element = narrow ? 2 : 4;
  const auto peak = [&](int32_t rows, int64_t chunk) { return Run(model, Work(rows), Rows(rows), chunk).peak_bytes; };
  peak(kRows, kChunk);  // allocates what stays
  const int64_t few = peak(kRows / 4, kChunk), many = peak(kRows, kChunk), all = peak(kRows, 1 << 20);
  std::printf("%s: %lld bytes for %d rows, %lld for %d, %lld without chunks\n", at::toString(GetParam()),
              static_cast<long long>(few), kRows / 4, static_cast<long long>(many), kRows, static_cast<long long>(all));
  const int64_t row_bytes = 16 * element * 8;  // up to two rows of logits per row, and four tensors of their width
  EXPECT_LT(many - few, (kRows - kRows / 4) * row_bytes + 16384);
  const int64_t logits = kChunk * kVocab * 4, by_logits = narrow ? 8 * kChunk * kVocab * 2 : 0;
  const int64_t weight = kVocab * 16 * (narrow ? 4 + 2 : 4);
  EXPECT_LT(many, weight + logits + by_logits + kRows * row_bytes + 32768);
  EXPECT_GT(all, kRows * kVocab * 4);
}

INSTANTIATE_TEST_SUITE_P(Types, HeadOnDevice, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

}  // namespace
}  // namespace ingot::trainer
