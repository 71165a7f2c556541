// A decode step on a device: its launches and copies, and its bits. Runs under standin.py; INGOT_CUDA_LIBRARY names
// libingot_cuda.so.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/torch/decode_step.h"
#include "kernels/torch/exact.h"
#include "kernels/torch/layers.h"
#include "kernels/torch/pages.h"
#include "kernels/torch/tree_attention.h"
#include "standin/rollout/counts.h"
#include "standin/rollout/steps.h"
#include "standin/trainer/open_device.h"

namespace ingot::rollout {
namespace {

const at::Device kDevice{at::kCUDA, 0};

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

class DecodeKernels : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { ASSERT_TRUE(trainer::OpenDevice()); }
  static at::Tensor Random(at::IntArrayRef sizes) { return at::randn(sizes).to(kDevice, GetParam()); }
};

at::Tensor Longs(std::vector<int64_t> values) { return at::tensor(values, at::kLong).to(kDevice); }

TEST_P(DecodeKernels, RowsAreWrittenToPagesInOneLaunchWithEveryBit) {
  for (const int64_t depth : {8, 5, 64}) {
    at::Tensor k = Random({4, 2, depth}), v = Random({4, 2, depth});
    k[1].fill_(-std::numeric_limits<double>::quiet_NaN());
    const at::Tensor slots = Longs({7, 0, 11, 3}), before = Random({4, 3, 2, depth});
    const kernels::PageRows to{before.clone(), before.clone(), slots};
    const Counts counts;
    kernels::WriteRows(k, v, to);
    EXPECT_EQ(counts.launches(), 1U);
    EXPECT_EQ(counts.operators(), 0U);
    for (const auto& [pages, rows] : {std::pair(to.k, k), std::pair(to.v, v)}) {
      const at::Tensor want = before.clone();
      want.flatten(0, 1).index_copy_(0, slots, rows);
      EXPECT_TRUE(SameBits(pages, want)) << depth;
    }
  }
}

TEST_P(DecodeKernels, RowsWithoutASlotAreNotWritten) {
  const at::Tensor before = Random({2, 3, 2, 8}), k = Random({3, 2, 8});
  const kernels::PageRows to{before.clone(), before.clone(), Longs({-1, 4, -1})};
  kernels::WriteRows(k, k, to);
  const at::Tensor want = before.clone();
  want.flatten(0, 1)[4].copy_(k[1]);
  EXPECT_TRUE(SameBits(to.k, want));
}

TEST_P(DecodeKernels, HeadsAreTurnedAndWrittenInOneLaunch) {
  const at::Tensor q = Random({3, 4, 16}), k = Random({3, 2, 16}), v = Random({3, 2, 16});
  for (const bool norm : {false, true}) {
    const kernels::HeadTurn turn{norm ? Random({16}) : at::Tensor(),
                                 norm ? Random({16}) : at::Tensor(),
                                 1e-6,
                                 Random({9, 8}),
                                 Random({9, 8}),
                                 Longs({5, 0, 8})};
    const at::Tensor zeros = at::zeros({2, 3, 2, 16}, q.options());
    const kernels::PageRows fused{zeros.clone(), zeros.clone(), Longs({1, 5, 2})};
    const kernels::PageRows apart{zeros.clone(), zeros.clone(), fused.slots};
    const Counts counts;
    const at::Tensor turned = kernels::TurnAndWriteRows(q, k, v, turn, fused);
    EXPECT_EQ(counts.launches(), 1U);
    EXPECT_EQ(counts.operators(), 0U);
    const auto alone = [&](const at::Tensor& x, const at::Tensor& weight) {
      return kernels::NormRotateOp(x, weight, turn.eps, turn.cos, turn.sin, turn.positions);
    };
    kernels::WriteRows(alone(k, turn.k_weight), v, apart);
    EXPECT_TRUE(SameBits(turned, alone(q, turn.q_weight))) << norm;
    EXPECT_TRUE(SameBits(fused.k, apart.k)) << norm;
    EXPECT_TRUE(SameBits(fused.v, apart.v)) << norm;
  }
}

TEST_P(DecodeKernels, LayersOfOneInputAreOneLaunchWithTheBitsOfEach) {
  for (const int64_t rows : {1, 17, 70}) {
    const at::Tensor x = Random({rows, 24});
    const std::vector<at::Tensor> weights = {Random({70, 24}), Random({8, 24}), Random({33, 24})};
    const std::vector<at::Tensor> biases = {Random({70}), at::Tensor(), Random({33})};
    const Counts counts;
    const std::vector<at::Tensor> together = kernels::ExactLinears(x, weights, biases);
    EXPECT_EQ(counts.launches(), 1U);
    const std::vector<at::Tensor> two = kernels::ExactLinears(x, {weights[1], weights[2]}, {});
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(SameBits(together[i], kernels::ExactLinear(x, weights[i], biases[i], false))) << rows << " " << i;
      if (i > 0) {
        EXPECT_TRUE(SameBits(two[i - 1], kernels::ExactLinear(x, weights[i], {}, false))) << rows << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DecodeKernels, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

// ---- whole steps

class DecodeStep : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(trainer::OpenDevice());
    kernels::SetDeviceNumerics(kernels::Numerics::kExact);
  }
  void TearDown() override { kernels::SetDeviceNumerics(kernels::Numerics::kFast); }
};

struct StepCounts {
  int64_t launches, operators, uploads;
};

StepCounts CountStep(int64_t layers) {
  const Steps steps(ConfigOf(layers));
  ForwardBatch prompt;
  steps.Add(prompt, 0, 0, 20, false);
  steps.Run(prompt);
  ForwardBatch batch;
  steps.Add(batch, 0, 20, 1, true);
  for (RowRace& race : batch.races) race.whole = true;
  const Counts counts;
  steps.Run(batch);
  return {static_cast<int64_t>(counts.launches()), static_cast<int64_t>(counts.operators()),
          static_cast<int64_t>(counts.uploads())};
}

// The norm, the products of q, k, and v, heads and pages, attention's two, its output, the next norm, gate and up,
// SwiGLU, and down. The step's inputs are one copy.
TEST_F(DecodeStep, HasTenLaunchesPerLayerAndOneUpload) {
  const StepCounts one = CountStep(1), three = CountStep(3);
  EXPECT_EQ(three.launches - one.launches, 2 * 10);
  EXPECT_EQ(three.operators, one.operators) << "torch's operators within a layer";
  EXPECT_EQ(one.uploads, 1);
  EXPECT_EQ(three.uploads, 1);
  std::printf("besides layers: %d launches and %d operators\n", static_cast<int>(one.launches - 10),
              static_cast<int>(one.operators));
}

// A batch with a row that is not sampled is no decode step, and takes the way of prompts.
TEST_F(DecodeStep, HasTheBitsOfAnyOtherPass) {
  for (const int64_t window : {0, 100}) {
    const Steps a(ConfigOf(2, window)), b(ConfigOf(2, window));
    a.Prefill();
    b.Prefill();
    for (int64_t step = 0; step < 2; ++step) {
      ForwardBatch other = b.Decode(step, 4);
      b.Add(other, 0, 0, 1, false);
      const std::vector<float> want = b.Run(other), got = a.Run(a.Decode(step, 4));
      ASSERT_EQ(got.size(), 4U * 61);
      EXPECT_EQ(got, want) << window << " " << step;
    }
    const std::vector<float> alone = a.Run(a.Decode(2, 1)), together = b.Run(b.Decode(2, 4));
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin())) << window;
  }
}

TEST_F(DecodeStep, DrawsWhereTheRowsAre) {
  const Steps steps(ConfigOf(1));
  steps.Prefill();
  ForwardBatch batch = steps.Decode(0, 4);
  const std::vector<float> rows = steps.Run(batch);
  batch.races[1].whole = batch.races[3].whole = true;
  const std::vector<float> others = steps.Run(batch);
  ASSERT_EQ(others.size(), 2U * 61);
  EXPECT_TRUE(std::equal(others.begin(), others.begin() + 61, rows.begin()));
  ASSERT_EQ(steps.runner->Drawn().size(), 2U);
  for (const size_t i : {0, 1}) {
    const DrawnId& drawn = steps.runner->Drawn()[i];
    ASSERT_GE(drawn.id, 0);
    EXPECT_EQ(drawn.logprob, rows[(i * 2 + 1) * 61 + static_cast<size_t>(drawn.id)]);
  }
}

TEST_F(DecodeStep, RefusesABlockOutsideTheCache) {
  Steps steps(ConfigOf(1));
  steps.tables[0][1] = 64;
  const absl::Status status = steps.runner->Forward(*steps.model, steps.Decode(0, 1)).status();
  EXPECT_NE(status.message().find("block 64"), std::string::npos) << status;
}

// Plans with room for more rows and chunks than a batch has, in memory of the same size.
TEST_F(DecodeStep, PlansWithRoomHaveTheBitsOfExactOnes) {
  const at::Tensor q = at::randn({5, 4, 16}).to(kDevice, at::kBFloat16);
  const at::Tensor k = at::randn({90, 16, 2, 16}).to(kDevice, at::kBFloat16), v = at::randn_like(k);
  std::vector<std::vector<int32_t>> tables;
  std::vector<kernels::AttentionSequence> sequences;
  int32_t next = 40;
  for (const int64_t keys : {1, 40, 530, 1030}) {
    std::vector<int32_t>& table = tables.emplace_back();
    for (int64_t p = 0; p < (keys + 15) / 16; ++p) {
      table.push_back(p < 32 ? static_cast<int32_t>(p) : (next++ - 40) % 50 + 40);
    }
    kernels::AttentionSequence s;
    s.q_begin = std::ssize(sequences);
    s.q_count = keys == 1030 ? 2 : 1;
    s.q_offset = keys - s.q_count;
    s.key_count = keys;
    sequences.push_back(s);
  }
  for (size_t i = 0; i < tables.size(); ++i) sequences[i].block_table = tables[i].data();
  for (const int64_t window : {0, 600}) {
    at::Tensor want = at::empty_like(q);
    kernels::PagedTreeAttention(q, k, v, sequences, 0.25, want, {}, window);
    const kernels::cuda::DecodePlan plan({4, 2, 16, 0.25, window}, sequences, 16);
    for (const int64_t more : {0, 1, 9}) {
      const kernels::cuda::DecodeRoom room{5 + more, plan.entries() + more * 7};
      std::vector<std::byte> bytes(static_cast<size_t>(room.bytes(16)), std::byte{0xff});
      EXPECT_LE(plan.PackInto(room, bytes.data()), room.bytes(16));
      const at::Tensor memory = at::from_blob(bytes.data(), {room.bytes(16)}, at::kByte).clone().to(kDevice);
      const at::Tensor wide = at::cat({q, at::zeros({more, 4, 16}, q.options())});
      const at::Tensor got = kernels::DecodeAttention(wide, k, v, {memory, room}, 0.25, {}, window);
      EXPECT_TRUE(SameBits(got.narrow(0, 0, 5), want)) << window << " " << more;
    }
  }
}

}  // namespace
}  // namespace ingot::rollout
