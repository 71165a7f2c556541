#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ingot::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, RendersEveryKindInPrometheusText) {
  Metrics metrics;
  metrics.GetCounter("ingot_calls_total", "Calls", {{"route", "/v1/models"}}).Increment(3);
  metrics.GetGauge("ingot_open", "Open").Set(2.5);
  metrics.GetHistogram("ingot_wait_seconds", "Waits", {}, {0.1, 1}).Observe(0.5);
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("# TYPE ingot_calls_total counter\ningot_calls_total{route=\"/v1/models\"} 3"));
  EXPECT_THAT(text, HasSubstr("ingot_open 2.5"));
  EXPECT_THAT(text, HasSubstr("ingot_wait_seconds_bucket{le=\"0.1\"} 0"));
  EXPECT_THAT(text, HasSubstr("ingot_wait_seconds_bucket{le=\"1\"} 1"));
}

TEST(MetricsTest, TheSameNameAndLabelsAreTheSameSeries) {
  Metrics metrics;
  Counter& first = metrics.GetCounter("a", "", {{"x", "1"}});
  EXPECT_EQ(&first, &metrics.GetCounter("a", "", {{"x", "1"}}));
  EXPECT_NE(&first, &metrics.GetCounter("a", "", {{"x", "2"}}));
}

TEST(MetricsTest, ForbiddenCharactersInNamesBecomeUnderscores) {
  EXPECT_EQ(MetricName("reward/mean"), "reward_mean");
  EXPECT_EQ(MetricName("2nd try"), "_2nd_try");
  EXPECT_EQ(MetricName(""), "_");
  Metrics metrics;
  metrics.GetGauge("a b/c", "", {{"__x:y", "v"}}).Set(1);
  EXPECT_THAT(metrics.RenderText(), HasSubstr("a_b_c{label__x_y=\"v\"} 1"));
}

TEST(MetricsTest, ANameOfAnotherKindGetsASuffix) {
  Metrics metrics;
  metrics.GetCounter("n", "").Increment();
  metrics.GetGauge("n", "").Set(7);
  EXPECT_THAT(metrics.RenderText(), HasSubstr("n_conflict 7"));
}

TEST(MetricsTest, LabelSetsBeyondTheLimitShareOneSeries) {
  Metrics metrics(2);
  for (int i = 0; i < 5; ++i) metrics.GetCounter("n", "", {{"who", std::to_string(i)}}).Increment();
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("n{who=\"1\"} 1"));
  EXPECT_THAT(text, HasSubstr("n{overflow=\"true\"} 3"));
  EXPECT_THAT(text, Not(HasSubstr("who=\"2\"")));
}

TEST(MetricsTest, ThreadsShareSeries) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.GetCounter("n", "").Increment();
        if (i % 100 == 0) metrics.RenderText();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.GetCounter("n", "").Value(), 2000);
}

}  // namespace
}  // namespace ingot::base
