// The operator's CUDA kernels, where there is a card and libingot_cuda.so. On the CPU, a test of the checks themselves.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/attention/attention_checks.h"
#include "kernels/cuda/probe.h"

namespace ingot::kernels {
namespace {

void ExpectAll(at::Device device) {
  int count = 0;
  testing::CheckTreeAttention(device, [&](const testing::CheckResult& result) {
    ++count;
    EXPECT_TRUE(result.ok()) << result.name << ": error " << result.error << ", allowed " << result.tolerance;
  });
  EXPECT_GT(count, 100);
}

// The reason to skip; empty = none.
std::string OpenCuda() {
  const char* path = std::getenv("INGOT_CUDA_LIBRARY");
  if (path == nullptr) return "INGOT_CUDA_LIBRARY names no libingot_cuda.so";
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  cuda::DeviceProbe probe;
  reinterpret_cast<decltype(&ingot_cuda_probe)>(dlsym(library, cuda::kProbeSymbol))(&probe);
  if (probe.torch_devices == 0) return "no CUDA device (" + std::string(probe.error_text) + ")";
  return "";
}

TEST(TreeAttentionChecks, HoldOnTheCpu) { ExpectAll(at::kCPU); }

TEST(TreeAttentionChecks, HoldOnCuda) {
  const std::string why = OpenCuda();
  if (!why.empty()) {
    printf("skipped, the CUDA kernels were not run: %s\n", why.c_str());
    GTEST_SKIP() << why;
  }
  ExpectAll(at::Device(at::kCUDA, 0));
}

}  // namespace
}  // namespace ingot::kernels
