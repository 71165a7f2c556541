#include "kernels/torch/attention_bench.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace ingot::kernels {
namespace {

TEST(AttentionBench, RejectsUnknownNamesAndListsTheKnownOnes) {
  AttentionBenchOptions options;
  options.shapes = {"causal-9k"};
  try {
    RunAttentionBench(options, [](const std::string&) { ADD_FAILURE() << "measured an unknown shape"; });
    ADD_FAILURE() << "took an unknown shape";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("dialogue-20"), std::string::npos);
  }
  options.shapes = {};
  options.dtypes = {"fp8"};
  EXPECT_THROW(RunAttentionBench(options, [](const std::string&) {}), c10::Error);
  options.dtypes = {};
  options.instruction_set = "avx1024";
  EXPECT_THROW(RunAttentionBench(options, [](const std::string&) {}), c10::Error);
  options.instruction_set = {};
  options.repeat = 0;
  EXPECT_THROW(RunAttentionBench(options, [](const std::string&) {}), c10::Error);
}

TEST(AttentionBench, GivesOneObjectPerFigureWithItsRateOfTheMatrixProduct) {
  AttentionBenchOptions options;
  options.shapes = {"decode-16x2k"};
  options.dtypes = {"fp32"};
  options.repeat = 1;
  std::vector<std::string> lines;
  RunAttentionBench(options, [&](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 4u);
  int best = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(lines[i].find("\"pass\":\"gemm\""), std::string::npos);
    best += lines[i].find("\"of_gemm\":1.000") != std::string::npos;
  }
  EXPECT_GE(best, 1) << "shares are of the best product";
  EXPECT_NE(lines[3].find("\"pass\":\"decode\""), std::string::npos);
}

TEST(AttentionBench, MeasuresTheLinearLayerBesideTorchs) {
  AttentionBenchOptions options;
  options.shapes = {"linear-1"};
  options.dtypes = {"fp32"};
  options.repeat = 1;
  std::vector<std::string> lines;
  RunAttentionBench(options, [&](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_NE(lines[3].find("\"pass\":\"linear\""), std::string::npos);
  EXPECT_NE(lines[4].find("\"pass\":\"torch-linear\""), std::string::npos);
}

}  // namespace
}  // namespace ingot::kernels
