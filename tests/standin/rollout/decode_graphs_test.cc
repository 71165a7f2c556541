// Decode steps as CUDA graphs: their bits, their launches, and what happens if they cannot be recorded or fail. Runs
// under standin.py; INGOT_CUDA_LIBRARY names libingot_cuda.so.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/device_failure.h"
#include "kernels/cuda/graph_counts.h"
#include "kernels/torch/device_graph.h"
#include "kernels/torch/exact.h"
#include "rollout/engine/decode_graphs.h"
#include "rollout/engine/engine_memory.h"
#include "standin/rollout/counts.h"
#include "standin/rollout/steps.h"
#include "standin/trainer/open_device.h"

namespace ingot::rollout {
namespace {

EngineOptions WithGraphs() {
  EngineOptions options = Steps::Options();
  options.cuda_graphs = true;
  return options;
}

class DecodeGraphsOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(trainer::OpenDevice());
    kernels::SetDeviceNumerics(kernels::Numerics::kExact);
  }
  void TearDown() override { kernels::SetDeviceNumerics(kernels::Numerics::kFast); }
};

// The drawn ids and their log-probs, or a failure.
std::vector<std::pair<int32_t, float>> DrawnOf(const Steps& steps) {
  std::vector<std::pair<int32_t, float>> drawn;
  for (const DrawnId& id : steps.runner->Drawn()) drawn.emplace_back(id.id, id.logprob);
  return drawn;
}

// Batches of 4, 3, and 1 rows with prefixes in common, each first without a graph, then recorded, then run again.
TEST_F(DecodeGraphsOnDevice, HaveTheBitsOfStepsWithoutThem) {
  for (const int64_t window : {0, 100}) {
    const Steps graphs(ConfigOf(2, window), WithGraphs()), plain(ConfigOf(2, window));
    graphs.Prefill();
    plain.Prefill();
    int64_t step = 0;
    for (const int64_t count : {4, 4, 4, 3, 1, 1, 1, 4}) {
      ForwardBatch batch = graphs.Decode(step, count);
      if (step % 2 == 1) batch.races[0].whole = true;
      EXPECT_EQ(graphs.Run(batch), plain.Run(batch)) << "window " << window << ", step " << step;
      EXPECT_EQ(DrawnOf(graphs), DrawnOf(plain)) << "window " << window << ", step " << step;
      ++step;
    }
  }
}

TEST_F(DecodeGraphsOnDevice, RunAgainWithoutLaunchesOfTheHost) {
  const Steps steps(ConfigOf(2), WithGraphs());
  steps.Prefill();
  for (int64_t step = 0; step < 4; ++step) {
    ForwardBatch batch = steps.Decode(step, 3);
    for (RowRace& race : batch.races) race.whole = true;
    const Counts counts;
    steps.Run(batch);
    EXPECT_EQ(counts.launches() == 0, step >= 2) << step;
    if (step != 1) {  // recording sets the seeds of torch's generator
      EXPECT_EQ(counts.operators(), 0U) << step;
    }
    EXPECT_EQ(counts.uploads(), 1U) << step;
  }
  EXPECT_EQ(kernels::cuda::graph_failures, 0);
}

TEST_F(DecodeGraphsOnDevice, FollowNewWeights) {
  Steps graphs(ConfigOf(1), WithGraphs()), plain(ConfigOf(1));
  graphs.Prefill();
  plain.Prefill();
  const auto first = graphs.model, first_plain = plain.model;
  int64_t step = 0;
  for (const int64_t version : {1, 2, 3, 1, 2}) {
    graphs.model = version == 1 ? first : *graphs.runner->Load(WeightsOf(ConfigOf(1), version));
    plain.model = version == 1 ? first_plain : *plain.runner->Load(WeightsOf(ConfigOf(1), version));
    for (int i = 0; i < 3; ++i, ++step) {
      EXPECT_EQ(graphs.Run(graphs.Decode(step, 4)), plain.Run(plain.Decode(step, 4))) << version << " " << step;
    }
  }
}

// The cache has other pages afterwards.
TEST_F(DecodeGraphsOnDevice, EndWithTheMemoryThatTheyUse) {
  const Steps graphs(ConfigOf(1), WithGraphs()), plain(ConfigOf(1));
  for (int round = 0; round < 2; ++round) {
    graphs.Prefill();
    plain.Prefill();
    for (int64_t step = 0; step < 3; ++step) {
      EXPECT_EQ(graphs.Run(graphs.Decode(step, 2)), plain.Run(plain.Decode(step, 2))) << round << " " << step;
    }
    ASSERT_TRUE(graphs.runner->ReleaseMemory().ok());
    ASSERT_TRUE(plain.runner->ReleaseMemory().ok());
  }
}

TEST(DecodeGraphRooms, RoundUp) {
  const auto rows = [](int64_t count) { return DecodeGraphs::RoomFor({count, count}).rows; };
  EXPECT_EQ(rows(1), 1);
  EXPECT_EQ(rows(3), 4);
  EXPECT_EQ(rows(8), 8);
  EXPECT_EQ(rows(9), 16);
  EXPECT_EQ(rows(64), 64);
  EXPECT_EQ(rows(65), 80);
  EXPECT_EQ(rows(256), 256);
  EXPECT_EQ(rows(257), 0) << "too wide";
  EXPECT_EQ(DecodeGraphs::RoomFor({3, 9}).entries, 16);
  EXPECT_EQ(DecodeGraphs::RoomFor({20, 20}).entries, 32);
}

TEST(DecodeGraphRooms, AreInTheMemoryPlan) {
  EngineOptions options = WithGraphs();
  EXPECT_GT(GraphBytes(ConfigOf(2), options, 2, 1024), 0);
  EXPECT_GT(GraphBytes(ConfigOf(2), options, 2, 1 << 20), GraphBytes(ConfigOf(2), options, 2, 1024));
  options.cuda_graphs = false;
  EXPECT_EQ(GraphBytes(ConfigOf(2), options, 2, 1024), 0);
}

// ---- processes of their own (CMakeLists.txt)

// torch's products of `numerics: fast` cannot be recorded on the stand-in.
TEST(GraphsThatFail, RunWithoutAndSaySo) {
  ASSERT_TRUE(trainer::OpenDevice());
  const Steps graphs(ConfigOf(1), WithGraphs()), plain(ConfigOf(1));
  graphs.Prefill();
  plain.Prefill();
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(graphs.Run(graphs.Decode(step, 4)), plain.Run(plain.Decode(step, 4))) << step;
  }
  EXPECT_EQ(kernels::cuda::graph_failures, 1) << "only the first attempt";
}

// Takes a device's memory but for two blocks, which a step's tensors can use.
std::vector<at::Tensor> TakeMemory() {
  std::vector<at::Tensor> all;
  for (const int64_t bytes : {2 << 20, 1 << 18}) {
    try {
      while (true) all.push_back(at::empty({bytes}, at::dtype(at::kByte).device(at::kCUDA)));
    } catch (const c10::OutOfMemoryError&) {
    }
    if (!all.empty()) all.pop_back();
  }
  return all;
}

// On a device of 64 MB. The memory is missing when a recording begins, and then when its first tensor is allocated.
TEST(GraphsWithoutMemory, RunWithoutAndSaySo) {
  ASSERT_TRUE(trainer::OpenDevice());
  kernels::SetDeviceNumerics(kernels::Numerics::kExact);
  for (const int64_t failures : {1, 2}) {
    const Steps steps(ConfigOf(1), WithGraphs());
    steps.Prefill();
    const std::vector<float> want = steps.Run(steps.Decode(0, 4));
    if (failures == 2) kernels::DeviceGraph(at::empty({1}, at::device(at::kCUDA)), [] {});  // has the state from now on
    const std::vector<at::Tensor> all = TakeMemory();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(steps.Run(steps.Decode(0, 4)), want);
      EXPECT_EQ(kernels::cuda::graph_failures, failures);
    }
  }
}

// INGOT_STANDIN_FAULT_AT is a launch of a graph's.
TEST(GraphsOfAFailingDevice, EndWithTheDevicesError) {
  ASSERT_TRUE(trainer::OpenDevice());
  kernels::SetDeviceNumerics(kernels::Numerics::kExact);
  const Steps steps(ConfigOf(1), WithGraphs());
  steps.Prefill();
  for (int64_t step = 0; step < 100; ++step) {
    const Counts counts;
    const absl::Status status = steps.runner->Forward(*steps.model, steps.Decode(step % 8, 2)).status();
    if (status.ok()) continue;
    EXPECT_TRUE(base::IsDeviceFailure(status)) << status;
    EXPECT_NE(status.message().find("illegal"), std::string::npos) << status;
    EXPECT_EQ(counts.launches(), 0U) << "not a graph: choose another launch";
    EXPECT_GT(step, 2);
    return;
  }
  FAIL() << "the device did not fail";
}

}  // namespace
}  // namespace ingot::rollout
