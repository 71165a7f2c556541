// The `rewards` section: terms of a YAML list, and refusals of keys and kinds that do not exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/config.h"
#include "base/file.h"
#include "reward/options.h"
#include "reward/term_kinds.h"
#include "reward/terms/length.h"
#include "test_paths.h"

namespace ingot::app {
namespace {

absl::Status Load(const std::string& yaml, reward::RewardOptions& options) {
  base::Schema schema;
  schema.Section("rewards", options);
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
  EXPECT_EQ(options.terms[1].Of<reward::LengthOptions>().correct_above, 0.9);
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

// Every example of docs/guide/rewards.md is a configuration that loads.
TEST(RewardsSchema, LoadsTheExamplesOfItsPage) {
  const auto page = base::ReadFile(INGOT_SOURCE_DIR "/docs/guide/rewards.md");
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
  EXPECT_EQ(examples, 10);
}

// The keys of a term that are options of one kind, such as "judge.model".
std::vector<std::string> OptionsOfKinds() {
  reward::RewardOptions options;
  base::Schema schema;
  schema.Section("rewards", options);
  const std::string explained = *schema.Explain("rewards.terms[]");
  std::vector<std::string> keys;
  for (const absl::string_view line : absl::StrSplit(explained, '\n')) {
    absl::string_view key = line.substr(0, line.find(' '));
    if (!absl::ConsumePrefix(&key, "rewards.terms[].")) continue;
    if (key.find('.') != key.npos && !absl::StartsWith(key, "schedule.")) keys.emplace_back(key);
  }
  return keys;
}

// YAML of a list with one term, which sets the key to a value that it may have.
std::string OneTerm(const std::string& kind, const std::string& key) {
  const std::vector<std::string> path = absl::StrSplit(key, '.');
  for (const char* value : {"1", "0.5", "most", "[a]", "true"}) {
    std::string yaml =
        absl::StrCat("rewards: {terms: [{kind: ", kind, ", ", path[0], ": {", path[1], ": ", value, "}}]}");
    reward::RewardOptions options;
    if (Load(absl::StrCat("rewards: {terms: [{kind: ", path[0], ", ", path[0], ": {", path[1], ": ", value, "}}]}"),
             options)
            .ok()) {
      return yaml;
    }
  }
  ADD_FAILURE() << "no value is one of " << key;
  return "";
}

TEST(RewardsSchema, AnOptionIsOfItsKindAlone) {
  const std::vector<std::string> keys = OptionsOfKinds();
  EXPECT_GE(keys.size(), 40u);
  for (const std::string& key : keys) {
    const std::string own = key.substr(0, key.find('.'));
    EXPECT_EQ(std::ranges::count(reward::TermKinds(), own), 1) << own;
    for (const std::string& kind : reward::TermKinds()) {
      reward::RewardOptions options;
      const absl::Status loaded = Load(OneTerm(kind, key), options);
      if (kind == own) {
        EXPECT_TRUE(loaded.ok()) << loaded;
        continue;
      }
      EXPECT_EQ(loaded.message(), absl::StrCat("run.yaml:1: ", key, ": this option needs a term of kind ", own,
                                               ", but this one has kind ", kind, " (in rewards.terms[0])"));
    }
  }
}

TEST(RewardsSchema, RejectsOptionsOutOfBounds) {
  reward::RewardOptions options;
  EXPECT_EQ(Load("rewards: {terms: [{kind: effort, effort: {k: 0}}]}", options).message(),
            "run.yaml:1: effort.k is 0: it must be greater than 0 (in rewards.terms[0])");
  EXPECT_EQ(Load("rewards: {terms: [{kind: outcome, schedule: {phase: 2}}]}", options).message(),
            "run.yaml:1: schedule.phase is 2: it must be in [-1, 1] (in rewards.terms[0])");
}

TEST(RewardsSchema, RejectsUnknownKindsAndKeys) {
  reward::RewardOptions options;
  EXPECT_NE(Load("rewards: {terms: [{kind: lenght}]}", options).message().find("outcome"), std::string::npos);
  EXPECT_NE(Load("rewards: {terms: [{kind: outcome, wieght: 1}]}", options).message().find("weight"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::app
