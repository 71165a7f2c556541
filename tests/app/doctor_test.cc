// The verdicts of `ingot doctor`.
#include "app/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::app {
namespace {

TEST(Doctor, SaysWhatToDoAboutWhatIsNotGood) {
  for (const char* good : {"amx", "avx512bf16"}) EXPECT_EQ(JudgeInstructionSet(good).health, Health::kGood);
  for (const Finding& finding : {JudgeInstructionSet("avx2"), JudgeInstructionSet("portable"), JudgeMemory(1 << 30),
                                 JudgeOpenFiles(1024, 1024), JudgeFsync(80, "/runs")}) {
    EXPECT_EQ(finding.health, Health::kLimited) << finding.text;
    EXPECT_FALSE(finding.remedy.empty()) << finding.text;
  }
  for (const Finding& finding :
       {JudgeMemory(int64_t{16} << 30), JudgeOpenFiles(1024, 1 << 20), JudgeFsync(0.5, "/runs")}) {
    EXPECT_EQ(finding.health, Health::kGood) << finding.text;
  }
}

TEST(Doctor, ExaminesThisMachineAndLeavesNothingBehind) {
  RunConfig config;
  config.root = ::testing::TempDir() + "/no/such/folder";
  const std::vector<Finding> findings = Examine(config);
  EXPECT_GE(findings.size(), 9u);
  const std::string text = FormatFindings(findings);
  for (const char* subject : {"processor", "memory", "disk", "sandbox", "ports", "GPU"}) {
    EXPECT_THAT(text, testing::HasSubstr(subject));
  }
}

}  // namespace
}  // namespace ingot::app
