// The race operator on the CPU. The kernel on CUDA is compared with it by gpu_check and tests/standin/ptx/draw_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/draws/race.h"
#include "kernels/torch/race.h"

namespace ingot::kernels {
namespace {

TEST(RaceOperator, HasTheWinnersOfTheRace) {
  const at::Tensor rows = at::randn({2000, 5}).t().contiguous();  // [5, 2000]
  rows[3].fill_(-INFINITY);
  const at::Tensor seeds = at::tensor({1, 2, 3, 4, -5}, at::kLong);
  for (const at::Tensor& given : {rows, rows.t().contiguous().t()}) {  // dense, and columns first
    const auto [winners, log_probs] = RaceRows(given, seeds);
    for (int64_t i = 0; i < 5; ++i) {
      const float* const row = rows.const_data_ptr<float>() + i * 2000;
      const int64_t want = Race({row, 2000, nullptr}, static_cast<uint64_t>(seeds[i].item<int64_t>()));
      EXPECT_EQ(winners[i].item<int64_t>(), want);
      EXPECT_EQ(log_probs[i].item<float>(), want < 0 ? -INFINITY : row[want]);
    }
    EXPECT_EQ(winners[3].item<int64_t>(), -1);
  }
}

TEST(RaceOperator, RejectsWrongTensors) {
  const at::Tensor rows = at::zeros({2, 3}), seeds = at::zeros({2}, at::kLong);
  EXPECT_THROW(RaceRows(rows.to(at::kDouble), seeds), c10::Error);
  EXPECT_THROW(RaceRows(rows[0], seeds), c10::Error);
  EXPECT_THROW(RaceRows(at::zeros({2, 0}), seeds), c10::Error);
  EXPECT_THROW(RaceRows(rows, at::zeros({3}, at::kLong)), c10::Error);
  EXPECT_THROW(RaceRows(rows, at::zeros({2}, at::kInt)), c10::Error);
}

}  // namespace
}  // namespace ingot::kernels
