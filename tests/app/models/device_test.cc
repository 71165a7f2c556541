#include "app/models/device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace ingot::app {
namespace {

using kernels::cuda::DeviceProbe;

DeviceProbe Good() {
  DeviceProbe probe;
  probe.version = kernels::cuda::kProbeVersion;
  probe.runtime_version = 13000;
  probe.driver_version = 13010;
  probe.device_count = probe.torch_devices = 1;
  probe.capability = 90;
  probe.least_capability = 80;
  probe.memory_bytes = int64_t{80} << 30;
  std::strcpy(probe.name, "Test Card");
  return probe;
}

std::string Judged(const DeviceProbe& probe) { return JudgeProbe(probe).ToString(); }
bool Has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

TEST(JudgeProbe, NamesTheFault) {
  EXPECT_TRUE(JudgeProbe(Good()).ok());
  DeviceProbe p = Good();
  p.driver_version = 0;
  p.error = 35;
  EXPECT_TRUE(Has(Judged(p), "no NVIDIA driver; the library uses CUDA 13.0, which needs driver 580")) << Judged(p);
  p = Good();
  p.driver_version = 12040;
  p.error = 35;
  EXPECT_TRUE(Has(Judged(p), "the NVIDIA driver supports CUDA 12.4, but the library uses CUDA 13.0")) << Judged(p);
  EXPECT_TRUE(Has(Judged(p), "needs driver 580 or newer")) << Judged(p);
  EXPECT_TRUE(Has(JudgeProbe(p, {"550.54.15", 12040}).ToString(), "the NVIDIA driver 550.54.15 supports CUDA 12.4"));
  p = Good();
  p.error = 100;
  p.device_count = 0;
  EXPECT_TRUE(Has(Judged(p), "no CUDA device")) << Judged(p);
  p = Good();
  p.error = 802;
  std::strcpy(p.error_text, "system not yet initialized");
  EXPECT_TRUE(Has(Judged(p), "system not yet initialized")) << Judged(p);
  p = Good();
  p.capability = 75;
  EXPECT_TRUE(Has(Judged(p), "Test Card, is sm_75; the kernels need sm_80")) << Judged(p);
  p = Good();
  p.torch_devices = 0;
  EXPECT_TRUE(Has(Judged(p), "torch can use none")) << Judged(p);
}

// An older driver is no fault if CUDA starts: minor versions are compatible.
TEST(JudgeProbe, TakesADriverThatWorks) {
  DeviceProbe p = Good();
  p.runtime_version = 13020;
  EXPECT_TRUE(JudgeProbe(p).ok());
}

// fake_cuda.cc is this test's own library; it answers with INGOT_FAKE_PROBE.
TEST(OpenDevice, TakesTheCardOfTheNamedLibrary) {
  ::setenv("INGOT_FAKE_PROBE", "good", 1);
  const auto choice = OpenDevice("auto", INGOT_FAKE_CUDA);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->torch_name, "cuda:0");
  EXPECT_FALSE(choice->fell_back);
  EXPECT_EQ(choice->description, "Fake Card, sm_90, 80.0 GiB, CUDA 13.0 (driver 13.1)");
  EXPECT_EQ(OpenDevice("cuda", INGOT_FAKE_CUDA)->torch_name, "cuda:0");
  EXPECT_EQ(OpenDevice("cpu", INGOT_FAKE_CUDA)->torch_name, "cpu");
}

TEST(OpenDevice, ProcessesTakeTheDevicesInTurn) {
  ::setenv("INGOT_FAKE_PROBE", "two", 1);
  for (int place = 0; place < 4; ++place) {
    const auto choice = OpenDevice("cuda", INGOT_FAKE_CUDA, place);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->torch_name, absl::StrCat("cuda:", place % 2));
    EXPECT_EQ(choice->devices, 2);
  }
}

TEST(OpenDevice, AutoFallsBackWhereCudaFailsAndSaysWhy) {
  ::setenv("INGOT_FAKE_PROBE", "old", 1);
  const auto choice = OpenDevice("auto", INGOT_FAKE_CUDA);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->torch_name, "cpu");
  EXPECT_TRUE(choice->fell_back);
  EXPECT_TRUE(choice->warns) << "its user has a GPU and expects to use it";
  EXPECT_TRUE(Has(choice->description, "sm_70")) << choice->description;
  const absl::Status asked = OpenDevice("cuda", INGOT_FAKE_CUDA).status();
  EXPECT_EQ(asked.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Has(asked.ToString(), "device is cuda, but")) << asked;
  EXPECT_TRUE(Has(asked.ToString(), "device=auto")) << asked;
}

TEST(OpenDevice, RejectsALibraryOfAnotherBuild) {
  ::setenv("INGOT_FAKE_PROBE", "version", 1);
  const absl::Status status = OpenDevice("cuda", INGOT_FAKE_CUDA).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Has(status.ToString(), "another build")) << status;
}

TEST(OpenDevice, SaysThatThereIsNoLibrary) {
  const absl::Status none = OpenDevice("cuda", "").status();  // there is no library beside this test
  EXPECT_EQ(none.code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Has(none.ToString(), "only the CPU kernels")) << none;
  EXPECT_TRUE(Has(none.ToString(), "INGOT_CUDA_LIBRARY")) << none;
  const absl::Status gone = OpenDevice("cuda", "/nowhere/libingot_cuda.so").status();
  EXPECT_TRUE(Has(gone.ToString(), "/nowhere/libingot_cuda.so")) << gone;
  // A file that is no library, and a library of another program.
  EXPECT_TRUE(Has(OpenDevice("cuda", "/proc/self/cmdline").status().ToString(), "cannot open")) << none;
  const auto fallback = OpenDevice("auto", "/nowhere/libingot_cuda.so");
  EXPECT_TRUE(fallback->fell_back);
  EXPECT_FALSE(fallback->warns);
}

TEST(ReportDevice, ShowsAFallbackInTheMetrics) {
  for (const bool fell_back : {true, false}) {
    base::Metrics metrics(10);
    DeviceChoice choice;
    choice.fell_back = fell_back;
    EXPECT_EQ(ReportDevice(choice, metrics), nullptr);
    const std::string shown = fell_back ? "device_fallback 1" : "device_fallback 0";
    EXPECT_TRUE(Has(metrics.RenderText(), shown)) << metrics.RenderText();
  }
}

TEST(OpenDevice, CpuIsNoFallback) {
  const auto choice = OpenDevice("cpu", "/nowhere/libingot_cuda.so");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->torch_name, "cpu");
  EXPECT_FALSE(choice->fell_back);
}

// fake_nvml.cc is this test's own NVML; it answers with INGOT_FAKE_NVML.
void FakeNvml(const char* mode) {
  ::setenv("INGOT_NVML_LIBRARY", INGOT_FAKE_NVML_LIBRARY, 1);
  ::setenv("INGOT_FAKE_NVML", mode, 1);
}

class WithNvml : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("INGOT_FAKE_PROBE", "good", 1); }
  void TearDown() override { ::setenv("INGOT_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1); }
};

TEST_F(WithNvml, NamesTheDriverThatIsTooOld) {
  FakeNvml("old");
  ::setenv("INGOT_FAKE_PROBE", "driver", 1);
  const std::string error = OpenDevice("cuda", INGOT_FAKE_CUDA).status().ToString();
  EXPECT_TRUE(Has(error, "the NVIDIA driver 550.54.15 supports CUDA 12.4")) << error;
  EXPECT_TRUE(Has(error, "CUDA 13.0, which needs driver 580 or newer")) << error;
  EXPECT_TRUE(Has(error, "Older drivers")) << error;
}

TEST_F(WithNvml, NamesTheDriverAndOtherProcesses) {
  FakeNvml("busy");
  const auto choice = OpenDevice("cuda", INGOT_FAKE_CUDA);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->description,
            "Fake Card, sm_90, 80.0 GiB, CUDA 13.0 (driver 580.65.06, 13.1); process 4711 uses 60.0 GiB");
  ASSERT_EQ(choice->users.size(), 1u) << "this process does not count";
  FakeNvml("busy,hidden");
  EXPECT_TRUE(Has(OpenDevice("cuda", INGOT_FAKE_CUDA)->description, "; process 4711 uses it"));
  FakeNvml("crowd");
  EXPECT_EQ(OpenDevice("cuda", INGOT_FAKE_CUDA)->users.size(), 100u);
  EXPECT_TRUE(Has(OpenDevice("cuda", INGOT_FAKE_CUDA)->description, "and 97 more processes"));
}

TEST_F(WithNvml, SubtractsOtherProcessesFromTheMemory) {
  const auto gib = [](const char* mode) {
    FakeNvml(mode);
    return *MemoryWithoutOthers(*OpenDevice("cuda", INGOT_FAKE_CUDA), 0) >> 30;
  };
  EXPECT_EQ(gib(""), 80);
  EXPECT_EQ(gib("busy"), 20);
  EXPECT_EQ(gib("busy,hidden"), 80) << "unknown, so not counted";
  EXPECT_EQ(gib("fails"), 80);
}

TEST_F(WithNvml, RejectsADeviceThatAnotherProcessHasForItself) {
  FakeNvml("exclusive,busy");
  const absl::Status taken = OpenDevice("cuda", INGOT_FAKE_CUDA).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Has(taken.ToString(), "cuda:0, Fake Card, accepts one process at a time")) << taken;
  EXPECT_TRUE(Has(taken.ToString(), "process 4711 uses 60.0 GiB")) << taken;
  EXPECT_TRUE(OpenDevice("auto", INGOT_FAKE_CUDA)->fell_back);
  FakeNvml("exclusive");
  EXPECT_TRUE(OpenDevice("cuda", INGOT_FAKE_CUDA).ok()) << "nobody else uses it";
  FakeNvml("prohibited");
  EXPECT_TRUE(Has(OpenDevice("cuda", INGOT_FAKE_CUDA).status().ToString(), "compute mode PROHIBITED"));
}

TEST_F(WithNvml, LosesOnlyFactsIfNvmlIsOfNoUse) {
  for (const char* mode : {"fails", "unknown,busy"}) {
    FakeNvml(mode);
    const auto choice = OpenDevice("cuda", INGOT_FAKE_CUDA);
    ASSERT_TRUE(choice.ok()) << mode << ": " << choice.status();
    EXPECT_TRUE(choice->users.empty()) << mode;
  }
  // A file that is no library, a library of another program, and none.
  for (const char* library : {"/proc/self/cmdline", INGOT_FAKE_CUDA, "/nowhere/libnvidia-ml.so.1"}) {
    ::setenv("INGOT_NVML_LIBRARY", library, 1);
    EXPECT_EQ(Nvml::Open(), nullptr) << library;
    EXPECT_TRUE(OpenDevice("cuda", INGOT_FAKE_CUDA).ok()) << library;
  }
}

TEST_F(WithNvml, ShowsMemoryAndUtilization) {
  FakeNvml("");
  base::Metrics metrics;
  const auto watch = ReportDevice(*OpenDevice("cuda", INGOT_FAKE_CUDA), metrics);
  ASSERT_NE(watch, nullptr);
  const std::string text = metrics.RenderText();
  EXPECT_TRUE(Has(text, "\ndevice_memory_allocated_bytes 3221225472\n")) << text;
  EXPECT_TRUE(Has(text, "\ndevice_memory_reserved_bytes 4294967296\n")) << text;
  EXPECT_TRUE(Has(text, "\ndevice_memory_total_bytes 85899345920\n")) << text;
  EXPECT_TRUE(Has(text, "\ndevice_utilization 0.75\n")) << text;
}

TEST_F(WithNvml, ShowsNoUtilizationWithoutNvml) {
  ::setenv("INGOT_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
  base::Metrics metrics;
  const auto watch = ReportDevice(*OpenDevice("cuda", INGOT_FAKE_CUDA), metrics);
  EXPECT_TRUE(Has(metrics.RenderText(), "device_memory_total_bytes"));
  EXPECT_FALSE(Has(metrics.RenderText(), "device_utilization")) << "0 would be a figure that nobody measured";
}

TEST(LeastDriver, FollowsTheMajorVersion) {
  EXPECT_EQ(LeastDriver(13000), 580);
  EXPECT_EQ(LeastDriver(13020), 580);
  EXPECT_EQ(LeastDriver(12080), 525);
}

TEST(ReportDevice, SetsTheGauge) {
  base::Metrics metrics;
  DeviceChoice choice;
  choice.fell_back = true;
  EXPECT_EQ(ReportDevice(choice, metrics), nullptr) << "the CPU has no gauges";
  EXPECT_TRUE(Has(metrics.RenderText(), "device_fallback 1")) << metrics.RenderText();
  choice.fell_back = false;
  EXPECT_EQ(ReportDevice(choice, metrics), nullptr) << "the CPU has no gauges";
  EXPECT_TRUE(Has(metrics.RenderText(), "device_fallback 0"));
  EXPECT_FALSE(Has(metrics.RenderText(), "device_memory"));
}

}  // namespace
}  // namespace ingot::app
