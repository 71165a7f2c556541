// Penalties and biases, worked by hand.
#include "rollout/sampling/logit_shaping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/fault.h"

namespace ingot::rollout {
namespace {

using testing::HasSubstr;

// Raw logits as a row: log_softmax(logits / T) and its normaliser.
struct Row {
  Row(const std::vector<float>& logits, float temperature = 1) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    normalizer = static_cast<float>(std::log(sum));
    for (const float logit : logits) entries.push_back(logit / temperature - normalizer);
  }
  std::vector<float> entries;
  float normalizer = 0;
};

// The row of `logits`, to 1e-5 after both are normalised.
void ExpectIsRowOf(const std::vector<float>& shaped, const std::vector<float>& logits, float temperature = 1) {
  const Row actual(shaped), expected(logits, temperature);
  ASSERT_EQ(shaped.size(), logits.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(actual.entries[i], expected.entries[i], 1e-5) << "id " << i;
}

TEST(LogitShapingTest, FrequencyCountsAndPresenceDoesNot) {
  v1::SamplingParams params;
  params.set_temperature(1);
  params.set_frequency_penalty(0.5f);
  params.set_presence_penalty(0.25f);
  LogitShaper shaper(params, std::vector<int32_t>{3}, {});
  EXPECT_FALSE(shaper.needs_normalizer());
  Row row({1, 2, 3, 4});
  shaper.Shape(0, row.entries);
  ExpectIsRowOf(row.entries, {1, 2, 3, 4});
  EXPECT_FALSE(shaper.penalty_acted()) << "nothing was sampled yet, and the prompt does not count";
  for (const int32_t id : {2, 0, 2}) shaper.RecordSampled(id);
  row = Row({1, 2, 3, 4});
  shaper.Shape(0, row.entries);
  ExpectIsRowOf(row.entries, {1 - 0.5f - 0.25f, 2, 3 - 2 * 0.5f - 0.25f, 4});
  EXPECT_TRUE(shaper.penalty_acted());
  EXPECT_FALSE(shaper.bias_acted());
}

TEST(LogitShapingTest, PenaltiesAndBiasAreInLogitsBeforeTheTemperature) {
  v1::SamplingParams params;
  params.set_temperature(0.5f);
  params.set_frequency_penalty(1);
  (*params.mutable_logit_bias())[1] = 2;
  LogitShaper shaper(params, {}, {});
  shaper.RecordSampled(0);
  Row row({1, -2, 0.5f}, 0.5f);
  shaper.Shape(0, row.entries);
  ExpectIsRowOf(row.entries, {1 - 1, -2 + 2, 0.5f}, 0.5f);
}

TEST(LogitShapingTest, RepetitionDividesPositiveAndMultipliesNegativeLogitsOnceEach) {
  for (const float temperature : {1.0f, 0.7f}) {
    v1::SamplingParams params;
    params.set_temperature(temperature);
    params.set_repetition_penalty(1.5f);
    LogitShaper shaper(params, std::vector<int32_t>{0, 0, 1}, {});
    ASSERT_TRUE(shaper.needs_normalizer());
    shaper.RecordSampled(2);
    shaper.RecordSampled(2);
    shaper.RecordSampled(0);
    Row row({3, -2, 0.6f, 4, -1}, temperature);
    shaper.Shape(row.normalizer, row.entries);
    ExpectIsRowOf(row.entries, {3 / 1.5f, -2 * 1.5f, 0.6f / 1.5f, 4, -1}, temperature);
  }
}

TEST(LogitShapingTest, RepetitionComesBeforeFrequencyAndBias) {
  v1::SamplingParams params;
  params.set_temperature(1);
  params.set_repetition_penalty(2);
  params.set_frequency_penalty(0.5f);
  (*params.mutable_logit_bias())[0] = -3;
  LogitShaper shaper(params, {}, {});
  shaper.RecordSampled(0);
  Row row({1, 2});
  shaper.Shape(row.normalizer, row.entries);
  ExpectIsRowOf(row.entries, {1 / 2.0f - 0.5f - 3, 2});
}

TEST(LogitShapingTest, ABiasOfMinusHundredExcludesAndOfPlusHundredForces) {
  v1::SamplingParams params;
  params.set_temperature(0);  // greedy: the row is at temperature 1
  (*params.mutable_logit_bias())[0] = -100;
  (*params.mutable_logit_bias())[1] = 100;
  LogitShaper shaper(params, {}, {});
  Row row({20, -9, 1});
  shaper.Shape(0, row.entries);
  EXPECT_EQ(row.entries[0], -std::numeric_limits<float>::infinity());
  EXPECT_NEAR(Row(row.entries).entries[1], 0, 1e-6);
  EXPECT_TRUE(shaper.bias_acted());
}

TEST(LogitShapingTest, IdsThatEndTheCallAreHeldBackForSoManyDraws) {
  v1::SamplingParams params;
  params.set_temperature(1);
  EXPECT_FALSE(LogitShaper::IsRequested(params));
  params.set_min_new_tokens(2);
  EXPECT_TRUE(LogitShaper::IsRequested(params));
  LogitShaper shaper(params, {}, std::vector<int32_t>{1, 2, 99});  // one is not in the row
  for (int drawn = 0; drawn < 4; ++drawn) {
    Row row({1, 2, 3, 4});
    shaper.Shape(0, row.entries);
    EXPECT_EQ(row.entries[1] == -std::numeric_limits<float>::infinity(), drawn < 2);
    EXPECT_EQ(row.entries[2] == -std::numeric_limits<float>::infinity(), drawn < 2);
    EXPECT_GT(row.entries[0], -10);
    shaper.RecordSampled(0);
  }
  EXPECT_TRUE(shaper.bias_acted());
  params.set_min_new_tokens(-1);
  EXPECT_EQ(ValidateShaping(params, 4).code(), absl::StatusCode::kInvalidArgument);
}

// No difference of infinities: an id that the model excludes stays excluded, and no entry becomes not-a-number or
// infinite.
TEST(LogitShapingTest, InfiniteAndHugeLogitsStayInOrder) {
  const float never = -std::numeric_limits<float>::infinity();
  for (const float penalty : {0.01f, 0.5f, 100.0f}) {
    v1::SamplingParams params;
    params.set_temperature(0.001f);
    params.set_repetition_penalty(penalty);
    params.set_frequency_penalty(-2);
    params.set_presence_penalty(2);
    for (int32_t id = 0; id < 4; ++id) (*params.mutable_logit_bias())[id] = 99;
    LogitShaper shaper(params, std::vector<int32_t>{0, 1, 2, 3}, {});
    for (int32_t id = 0; id < 4; ++id) shaper.RecordSampled(id);
    for (const float normalizer : {-3e38f, 0.0f, 3e38f, std::numeric_limits<float>::infinity()}) {
      std::vector<float> row = {never, 0, -3e38f, 3e38f};
      shaper.Shape(normalizer, row);
      EXPECT_EQ(row[0], never);
      for (const float entry : row) EXPECT_LT(entry, std::numeric_limits<float>::infinity());
    }
  }
}

TEST(LogitShapingTest, BadParametersAreRejectedByName) {
  const auto fault = [](auto set) {
    v1::SamplingParams params;
    set(params);
    return std::string(ValidateShaping(params, 10).message());
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(fault([](v1::SamplingParams&) {}), "");
  EXPECT_EQ(fault([](v1::SamplingParams& p) { p.set_frequency_penalty(-2); }), "");
  EXPECT_THAT(fault([](v1::SamplingParams& p) { p.set_frequency_penalty(2.5f); }), HasSubstr("frequency_penalty"));
  EXPECT_THAT(fault([&](v1::SamplingParams& p) { p.set_presence_penalty(nan); }), HasSubstr("presence_penalty"));
  EXPECT_THAT(fault([](v1::SamplingParams& p) { p.set_repetition_penalty(-1); }), HasSubstr("repetition_penalty"));
  EXPECT_THAT(fault([](v1::SamplingParams& p) { (*p.mutable_logit_bias())[10] = 1; }), HasSubstr("id 10"));
  EXPECT_THAT(fault([](v1::SamplingParams& p) { (*p.mutable_logit_bias())[-1] = 1; }), HasSubstr("id -1"));
  v1::SamplingParams outside;  // a base::Fault, which callers repeat in a client's words
  (*outside.mutable_logit_bias())[10] = 1;
  const auto about = base::FaultOf(ValidateShaping(outside, 10));
  ASSERT_TRUE(about.has_value());
  EXPECT_EQ(about->field, "sampling.logit_bias");
  EXPECT_EQ(about->what, "it has id 10, outside the vocabulary of 10");
  EXPECT_THAT(fault([](v1::SamplingParams& p) { (*p.mutable_logit_bias())[3] = 101; }), HasSubstr("logit_bias"));
  EXPECT_THAT(fault([&](v1::SamplingParams& p) { (*p.mutable_logit_bias())[3] = nan; }), HasSubstr("logit_bias"));
}

}  // namespace
}  // namespace ingot::rollout
