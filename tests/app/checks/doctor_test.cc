// The verdicts of `ingot doctor`.
#include "app/checks/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/listening_socket.h"

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

TEST(Doctor, SaysWhatAMachineWithAnOlderDriverCanDo) {
  DeviceChoice cpu;
  cpu.fell_back = true;
  cpu.description = "this build has only the CPU kernels";
  const Finding old = JudgeDevice(cpu, {"550.54.15", 12040});
  EXPECT_EQ(old.health, Health::kLimited);
  EXPECT_THAT(old.text, testing::HasSubstr("driver 550.54.15 supports CUDA 12.4; CUDA 13.0 needs driver 580 or newer"));
  EXPECT_THAT(old.text, testing::HasSubstr(cpu.description));
  for (const char* way : {"device=cpu", "cuda-compat-13-0", "vLLM"}) {
    EXPECT_THAT(old.remedy, testing::HasSubstr(way));
  }
  DeviceChoice seen = cpu;
  seen.description = "the NVIDIA driver 550.54.15 supports CUDA 12.4, but";
  EXPECT_EQ(JudgeDevice(seen, {"550.54.15", 12040}).text, seen.description) << "reported once";
  for (const DriverFacts& driver : {DriverFacts(), DriverFacts{"580.65.06", 13000}}) {
    EXPECT_EQ(JudgeDevice(cpu, driver).text, cpu.description) << "the driver is not at fault";
  }
}

TEST(Doctor, WarnsAboutOtherProcessesOnTheGpu) {
  DeviceChoice gpu;
  gpu.description = "Card; process 7 uses 60.0 GiB";
  EXPECT_EQ(JudgeDevice(gpu, {}).health, Health::kGood);
  gpu.users = {{7, std::nullopt}};
  EXPECT_EQ(JudgeDevice(gpu, {}).health, Health::kLimited);
  EXPECT_THAT(JudgeDevice(gpu, {}).remedy, testing::HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST(Doctor, NamesEveryPortThatIsTaken) {
  RunConfig config;
  config.http.port = config.cluster.datapool_port = config.cluster.scheduler_port = 0;
  config.cluster.gateway_port = config.cluster.rollout_port = 0;
  EXPECT_EQ(ExaminePorts(config).health, Health::kGood) << ExaminePorts(config).text;
  const base::testing::ListeningSocket taken;
  const int port = std::stoi(taken.place().substr(taken.place().find(':') + 1));
  config.page.host = config.metrics.host = "127.0.0.1";
  config.page.port = port;
  config.page.enabled = false;
  EXPECT_EQ(ExaminePorts(config).health, Health::kGood) << "a run without a page needs no port for it";
  config.page.enabled = true;
  EXPECT_THAT(ExaminePorts(config).text, testing::HasSubstr("http.dashboard_port: cannot listen on 127.0.0.1:"));
  config.metrics.port = port;
  const Finding both = ExaminePorts(config);
  EXPECT_EQ(both.health, Health::kLimited);
  EXPECT_THAT(both.text, testing::HasSubstr("metrics.port: cannot listen on 127.0.0.1:"));
  EXPECT_THAT(both.text, testing::HasSubstr(absl::StrCat("http.dashboard_port and metrics.port are both ", port)));
  EXPECT_THAT(both.remedy, testing::HasSubstr("http.dashboard_port=0"));
}

}  // namespace
}  // namespace ingot::app
