// Training steps on a device, whose torch operators add rows in another order each time (operators/operators.cc): equal
// bits over runs and after a resume. Runs under standin.py; INGOT_CUDA_LIBRARY names libingot_cuda.so.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "standin/trainer/open_device.h"
#include "trainer/makers.h"
#include "trainer/temp_dir.h"
#include "trainer/tiny_model.h"
#include "trainer/trainer.h"
#include "weights/delta.h"

namespace ingot::trainer {
namespace {

constexpr int kVocab = 37, kSteps = 3;

TrainerOptions Options(const std::string& dtype) {
  TrainerOptions options;
  options.dtype = dtype;
  options.optimizer.learning_rate = 0.02;
  options.optimizer.decay = "constant";
  options.threads = 1;
  options.micro_batch_tokens = 128;  // the step's bound is measured at this size, by interpreted kernels
  return options;
}

std::unique_ptr<Trainer> Start(const TrainerOptions& options, at::Device device) {
  const model::ModelConfig config = TinyConfig(kVocab);
  model::Parameters parameters = TinyParameters(config, 1, at::kFloat);
  for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(device);
  auto trainer = Trainer::Create(options, config, std::move(parameters));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

// Steps until version `end`. Each batch is a forest of rewritten, continued, and equal calls, so that its tokens have many rows.
void Train(Trainer& trainer, int64_t end) {
  while (trainer.version() < end) {
    const auto report = trainer.TrainStep(RandomBatch(7 + trainer.version(), kVocab, trainer.version()));
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->metrics.at("trainer/skipped"), 0);
  }
}

std::map<std::string, at::Tensor> WeightsOf(const Trainer& trainer) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, tensor] : trainer.parameters().tensors()) weights[name] = tensor.detach().to(at::kCPU);
  return weights;
}

void ExpectSameBits(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

class DeviceStep : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceStep, HasTheSameBitsAgainAndAfterAResume) {
  ASSERT_TRUE(OpenDevice());
  const at::Device device(at::kCUDA, 0);
  const TrainerOptions options = Options(GetParam());
  const TempDir folder;
  const auto first = Start(options, device);
  Train(*first, 1);
  ASSERT_TRUE(first->SaveCheckpoint(folder.path(), {}).ok());
  Train(*first, kSteps);
  const auto weights = WeightsOf(*first);

  const auto again = Start(options, device);
  Train(*again, kSteps);
  ExpectSameBits(WeightsOf(*again), weights);

  const auto resumed = Trainer::Resume(options, folder.path() + "/step-00000001", device);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  Train(**resumed, kSteps);
  ExpectSameBits(WeightsOf(**resumed), weights);
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceStep, ::testing::Values("fp32", "bf16"));

// The optimizer's marks name every word that differs, so the encoder finds the same changes without comparing the rest.
TEST(DeviceStepInBf16, TheMarksGiveTheDeltaOfAComparison) {
  ASSERT_TRUE(OpenDevice());
  const auto trainer = Start(Options("bf16"), at::Device(at::kCUDA, 0));
  std::shared_ptr<const weights::Snapshot> before;
  for (int version = 0; version <= kSteps; ++version) {
    Train(*trainer, version);
    const auto snapshot = trainer->TakeSnapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    if (before != nullptr) {
      ASSERT_NE((*snapshot)->changes(), nullptr);
      EXPECT_EQ((*snapshot)->changes()->masks.size(), (*snapshot)->size());
      std::vector<weights::TensorView> views;
      for (size_t i = 0; i < (*snapshot)->size(); ++i) views.push_back((*snapshot)->view(i));
      const auto unmarked = *weights::Snapshot::Copy((*snapshot)->version(), views);
      const auto delta = weights::Encode(before.get(), **snapshot, false),
                 compared = weights::Encode(before.get(), *unmarked, false);
      ASSERT_TRUE(delta.ok() && compared.ok());
      EXPECT_GT(delta->changed_elements, 0);
      EXPECT_EQ(delta->changed_elements, compared->changed_elements);
      ASSERT_EQ(delta->tensors.size(), compared->tensors.size());
      for (size_t i = 0; i < delta->tensors.size(); ++i) {
        EXPECT_EQ(delta->tensors[i].SerializeAsString(), compared->tensors[i].SerializeAsString()) << i;
      }
    }
    before = *snapshot;
  }
}

TEST(DeviceStepInFp32, IsNearTheCpus) {
  ASSERT_TRUE(OpenDevice());
  const auto host = Start(Options("fp32"), at::kCPU), device = Start(Options("fp32"), at::Device(at::kCUDA, 0));
  Train(*host, 1);
  Train(*device, 1);
  const auto wanted = WeightsOf(*host);
  for (const auto& [name, tensor] : WeightsOf(*device)) {
    // An update of a gradient near 0 depends on its rounding.
    EXPECT_LT((tensor - wanted.at(name)).norm().item<double>(), 1e-3 * wanted.at(name).norm().item<double>()) << name;
  }
}

}  // namespace
}  // namespace ingot::trainer
