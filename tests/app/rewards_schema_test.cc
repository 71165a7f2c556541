// The `rewards` section: terms of a YAML list, and refusals of keys and kinds that do not exist.
#include <gtest/gtest.h>

#include "app/role_schemas.h"
#include "base/file.h"

namespace ingot::app {
namespace {

absl::Status Load(const std::string& yaml, reward::RewardOptions& options) {
  base::Schema schema;
  BindRewards(schema, options);
  return schema.LoadText(yaml, "run.yaml");
}

TEST(RewardsSchema, ReadsTermsWithScheduleDomainsAndOptionsOfTheirKind) {
  reward::RewardOptions options;
  const absl::Status loaded = Load(R"(
rewards:
  deadline_s: 30
  terms:
    - kind: outcome
    - {kind: length, weight: 0.2, schedule: {from: 0.2}, domains: [math], length: {correct_above: 0.9}}
)",
                                   options);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(options.deadline_s, 30);
  ASSERT_EQ(options.terms.size(), 2u);
  EXPECT_EQ(options.terms[0].weight, 1);
  EXPECT_EQ(options.terms[1].weight, 0.2);
  EXPECT_EQ(options.terms[1].schedule.from, 0.2);
  EXPECT_EQ(options.terms[1].domains, std::vector<std::string>{"math"});
  EXPECT_EQ(options.terms[1].length.correct_above, 0.9);
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

// Every example of docs/rewards.md is a configuration that loads.
TEST(RewardsSchema, LoadsTheExamplesOfItsPage) {
  const auto page = base::ReadFile(INGOT_SOURCE_DIR "/docs/rewards.md");
  ASSERT_TRUE(page.ok()) << page.status();
  int examples = 0;
  for (size_t at = page->find("```yaml\n"); at != std::string::npos; at = page->find("```yaml\n", at + 1)) {
    const std::string yaml = page->substr(at + 8, page->find("```\n", at + 8) - at - 8);
    reward::RewardOptions options;
    const absl::Status loaded = Load(yaml, options);
    EXPECT_TRUE(loaded.ok()) << loaded << yaml;
    EXPECT_TRUE(options.Validate().ok()) << options.Validate() << yaml;
    ++examples;
  }
  EXPECT_EQ(examples, 9);
}

TEST(RewardsSchema, RefusesUnknownKindsAndKeys) {
  reward::RewardOptions options;
  EXPECT_NE(Load("rewards: {terms: [{kind: lenght}]}", options).message().find("outcome"), std::string::npos);
  EXPECT_NE(Load("rewards: {terms: [{kind: outcome, wieght: 1}]}", options).message().find("weight"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::app
