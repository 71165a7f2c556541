// The record of a run as its page reads it, while it is written, cut and broken.
#include "view/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "datapool/make_pool.h"

namespace ingot::view::rows_test {
namespace {

using ::testing::ElementsAre;

class RowsTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, std::ios::openmode mode = std::ios::app) { std::ofstream(path_, mode) << text; }
  std::vector<double> Rewards() {
    EXPECT_TRUE(rows_.Refresh().ok());
    return rows_.CurveOf("reward/mean", 100).mean;
  }

  datapool::testing::TempDir dir_;
  const std::string path_ = dir_.path() + "/metrics.jsonl";
  Rows rows_{path_};
};

TEST_F(RowsTest, ARecordThatIsMissingIsOneWithoutRows) {
  EXPECT_TRUE(Rewards().empty());
  EXPECT_EQ(rows_.size(), 0);
}

TEST_F(RowsTest, AHalfWrittenRowIsReadOnceItIsWhole) {
  Write("{\"step\": 0, \"time\": 1, \"reward/mean\": 0.25}\n{\"step\": 1, \"rew");
  EXPECT_THAT(Rewards(), ElementsAre(0.25));
  Write("ard/mean\": 0.5}\n");
  EXPECT_THAT(Rewards(), ElementsAre(0.25, 0.5));
  EXPECT_EQ(rows_.broken(), 0);
}

TEST_F(RowsTest, ABrokenRowIsCountedAndTheOthersStay) {
  Write("{\"step\": 0, \"reward/mean\": 0.25}\nnonsense\n[1]\n{\"step\": 2, \"reward/mean\": 0.75, \"x\": null}\n");
  EXPECT_THAT(Rewards(), ElementsAre(0.25, 0.75));
  EXPECT_EQ(rows_.broken(), 2);
  EXPECT_TRUE(rows_.CurveOf("x", 10).mean.empty());
}

TEST_F(RowsTest, ARecordThatAResumeCutIsReadAgain) {
  Write("{\"step\": 0, \"reward/mean\": 0.25}\n{\"step\": 1, \"reward/mean\": 0.5}\n");
  EXPECT_THAT(Rewards(), ElementsAre(0.25, 0.5));
  Write("{\"step\": 0, \"reward/mean\": 0.25}\n", std::ios::trunc);
  EXPECT_THAT(Rewards(), ElementsAre(0.25));
  // Cut, and longer again before the next look.
  Write("{\"step\": 0, \"reward/mean\": 0.25}\n{\"step\": 1, \"reward/mean\": 0.9}\n", std::ios::trunc);
  EXPECT_THAT(Rewards(), ElementsAre(0.25, 0.9));
}

TEST_F(RowsTest, ACurveOfManyStepsKeepsItsExtremes) {
  std::string text;
  for (int step = 0; step < 1000; ++step) {
    text += "{\"step\": " + std::to_string(step) + ", \"reward/mean\": " + (step == 777 ? "9" : "1") + "}\n";
  }
  Write(text);
  ASSERT_TRUE(rows_.Refresh().ok());
  const Curve curve = rows_.CurveOf("reward/mean", 50);
  ASSERT_EQ(curve.steps.size(), 50u);
  EXPECT_EQ(curve.steps.back(), 999);
  EXPECT_EQ(curve.high[777 / 20], 9);
  EXPECT_EQ(curve.low[777 / 20], 1);
  EXPECT_DOUBLE_EQ(curve.mean[777 / 20], 1.4);  // 19 of 1 and one of 9
}

TEST_F(RowsTest, AnEvaluationThatEndsLateStandsAtItsVersion) {
  Write("{\"step\": 5, \"eval/reward_mean\": 0.5}\n{\"step\": 2, \"eval/reward_mean\": 0.2}\n");
  ASSERT_TRUE(rows_.Refresh().ok());
  EXPECT_THAT(rows_.CurveOf("eval/reward_mean", 10).steps, ElementsAre(2, 5));
}

TEST_F(RowsTest, TheLastRowsAreThoseThatHaveTheMetric) {
  Write("{\"step\": 0, \"time\": 3, \"a\": 1}\n{\"step\": 1, \"b\": 1}\n{\"step\": 2, \"a\": 2, \"b\": 5}\n");
  ASSERT_TRUE(rows_.Refresh().ok());
  const std::vector<Row> rows = rows_.Last("a", 5);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].time, 3);
  EXPECT_FALSE(rows[0].Has("b"));
  EXPECT_EQ(rows[1].Get("b"), 5);
  EXPECT_EQ(rows_.Last("a", 1).front().step, 2);
}

}  // namespace
}  // namespace ingot::view::rows_test
