// Launches of a kernel from PTX, registered as nvcc's host code does.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
}

namespace {

// add(out, value, count): out[i] += value for i < count, by one thread each, and the variable `offset`.
constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .f32 offset;
.visible .entry add(.param .u64 out, .param .f32 value, .param .u32 count)
.maxntid 128, 1, 1
{
  .reg .pred %p<2>;
  .reg .f32 %f<5>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.f32 %f1, [value];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f2, [%rd2];
  ld.global.f32 %f3, [offset];
  add.f32 %f2, %f2, %f1;
  add.f32 %f2, %f2, %f3;
  st.global.f32 [%rd2], %f2;
done:
  ret;
}
.visible .entry wide() .maxntid 256, 1, 1 { .reg .b32 %r<300>; ret; }
.visible .entry wide_twice() .maxntid 256, 1, 1 .minnctapersm 2 { .reg .b32 %r<300>; ret; }
.visible .entry wide_64() .maxntid 256, 1, 1 .maxnreg 64 { .reg .b32 %r<300>; ret; }
)";

char add_host;  // their addresses stand for the host's functions and variables
char absent_host;
char wide_host, wide_twice_host, wide_64_host;
char offset_host;

// A fat binary with the PTX, plain (standin/runtime/fatbin.cc has the layout; fatbin_test.cc tests the compressed ones).
std::vector<std::byte> Fatbin() {
  const size_t text = sizeof(kPtx), padded = (text + 7) / 8 * 8, entry = 64;
  std::vector<std::byte> bytes(16 + entry + padded);
  const auto put = [&](size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof(value)); };
  put(0, uint32_t{0xba55ed50});
  put(4, uint16_t{1});
  put(6, uint16_t{16});
  put(8, uint64_t{entry + padded});
  put(16, uint16_t{1});  // PTX
  put(20, uint32_t{entry});
  put(24, uint64_t{padded});
  put(16 + 28, uint32_t{80});
  std::memcpy(bytes.data() + 16 + entry, kPtx, text);
  return bytes;
}

const bool registered = [] {
  static const std::vector<std::byte> fatbin = Fatbin();
  static const struct {
    int mark = 0x466243b1, version = 1;
    const void* data = fatbin.data();
    void* file = nullptr;
  } wrapper;
  void** handle = __cudaRegisterFatBinary(const_cast<void*>(static_cast<const void*>(&wrapper)));
  const auto add = [&](const char* host, const char* name) {
    __cudaRegisterFunction(handle, host, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  };
  add(&add_host, "add");
  add(&absent_host, "absent");
  add(&wide_host, "wide");
  add(&wide_twice_host, "wide_twice");
  add(&wide_64_host, "wide_64");
  __cudaRegisterVar(handle, &offset_host, nullptr, "offset", 0, 4, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  return true;
}();

constexpr int kCount = 200;

float* Zeros() {
  void* device = nullptr;
  EXPECT_EQ(cudaMalloc(&device, kCount * sizeof(float)), cudaSuccess);
  EXPECT_EQ(cudaMemset(device, 0, kCount * sizeof(float)), cudaSuccess);
  return static_cast<float*>(device);
}

cudaError_t Add(float* out, float value, int count, dim3 grid, dim3 block, size_t shared = 0,
                cudaStream_t stream = nullptr) {
  void* arguments[] = {&out, &value, &count};
  return cudaLaunchKernel(&add_host, grid, block, arguments, shared, stream);
}

std::vector<float> Values(const float* device) {
  std::vector<float> values(kCount);
  EXPECT_EQ(cudaMemcpy(values.data(), device, kCount * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

TEST(LaunchTest, RunsAKernelAndItsVariable) {
  float* device = Zeros();
  const float offset = 0.25f;
  ASSERT_EQ(cudaMemcpyToSymbol(&offset_host, &offset, sizeof(offset), 0, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(Add(device, 1.5f, kCount - 1, 2, 128), cudaSuccess);
  std::vector<float> expected(kCount, 1.75f);
  expected.back() = 0;
  EXPECT_EQ(Values(device), expected);
  const float zero = 0;
  ASSERT_EQ(cudaMemcpyToSymbol(&offset_host, &zero, sizeof(zero), 0, cudaMemcpyHostToDevice), cudaSuccess);
}

TEST(LaunchTest, CopiesParametersInTheCall) {
  float* device = Zeros();
  for (const float value : {1.f, 2.f}) ASSERT_EQ(Add(device, value, kCount, 2, 128), cudaSuccess);
  EXPECT_EQ(Values(device)[0], 3);
}

TEST(LaunchTest, ReplaysInAGraph) {
  float* device = Zeros();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(Add(device, 1, kCount, 2, 128, 0, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(Values(device)[0], 3);
}

// Runs alone, with an uncorrectable ECC error at the second launch.
TEST(OrderedFaultTest, EndsTheDeviceAtTheSecondLaunch) {
  float* device = Zeros();
  cudaEvent_t event = nullptr;
  size_t free = 0, total = 0;
  std::vector<float> values(kCount);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  ASSERT_EQ(Add(device, 1, kCount, 2, 128), cudaSuccess);
  EXPECT_EQ(Values(device)[0], 1);
  EXPECT_EQ(Add(device, 1, kCount, 2, 128), cudaSuccess) << "a fault shows itself only where somebody waits";
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable) << "it is not cleared";
  EXPECT_EQ(Add(device, 1, kCount, 2, 128), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaMemcpy(values.data(), device, sizeof(float), cudaMemcpyDeviceToHost), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaFree(device), cudaErrorECCUncorrectable);
}

TEST(LaunchTest, ChecksLimits) {
  float* device = Zeros();
  EXPECT_EQ(Add(device, 1, 1, dim3(1, 65536), 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Add(device, 1, 1, 0, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Add(device, 1, 1, 1, dim3(64, 32)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Add(device, 1, 1, 1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Add(device, 1, 1, 1, 160), cudaErrorInvalidValue);  // .maxntid
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(Values(device)[0], 0);
}

TEST(LaunchTest, GivesMoreSharedMemoryOnlyWhenAsked) {
  float* device = Zeros();
  constexpr int kMore = 60 << 10;
  EXPECT_EQ(Add(device, 1, 1, 1, 32, kMore), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(&add_host, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(&add_host, cudaFuncAttributeMaxDynamicSharedMemorySize, kMore), cudaSuccess);
  EXPECT_EQ(Add(device, 1, 1, 1, 32, kMore), cudaSuccess);
  EXPECT_EQ(Add(device, 1, 1, 1, 32, kMore + 1), cudaErrorInvalidValue);
}

int Resident(const char* host, int threads, size_t dynamic = 0) {
  int blocks = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, host, threads, dynamic), cudaSuccess);
  return blocks;
}

// An A100's multiprocessor has 64 warps, 32 blocks, 64 K registers, and 164 KB of shared memory, of which each block takes 1 KB more.
TEST(OccupancyTest, IsLimitedByTheScarcestResource) {
  constexpr int kMore = 60 << 10;
  ASSERT_EQ(cudaFuncSetAttribute(&add_host, cudaFuncAttributeMaxDynamicSharedMemorySize, kMore), cudaSuccess);
  EXPECT_EQ(Resident(&add_host, 128), 16);        // warps
  EXPECT_EQ(Resident(&add_host, 32), 32);         // blocks
  EXPECT_EQ(Resident(&add_host, 128, kMore), 2);  // shared memory: 2 x 61 KB
  EXPECT_EQ(Resident(&wide_host, 256), 1);        // 255 registers: 8 warps
  EXPECT_EQ(Resident(&wide_twice_host, 256), 2);  // the bound leaves 128 registers to a thread
  EXPECT_EQ(Resident(&wide_64_host, 256), 4);
  EXPECT_EQ(Resident(&add_host, 160), 0);  // .maxntid
  EXPECT_EQ(Resident(&add_host, 128, kMore + 1), 0);
}

TEST(OccupancyTest, LeavesSharedMemoryToBlocks) {
  size_t bytes = 0;
  ASSERT_EQ(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, &wide_64_host, 4, 256), cudaSuccess);
  // NVIDIA's calculation, unlike the launch, leaves out the 1 KiB that the system reserves for each block.
  EXPECT_EQ(Resident(&wide_64_host, 256, bytes - 1024), 4);
  EXPECT_EQ(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, &wide_64_host, 5, 256), cudaErrorInvalidValue);
}

TEST(OccupancyTest, NamesWhatIsNotThere) {
  int blocks = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &absent_host, 32, 0),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &add_host, 0, 0), cudaErrorInvalidValue);
  EXPECT_EQ(blocks, 0);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&blocks, &add_host, &config), cudaErrorNotSupported);  // sm_80
}

TEST(LaunchTest, NamesWhatIsNotThere) {
  void* no_arguments[] = {nullptr};
  EXPECT_EQ(cudaLaunchKernel(&absent_host, 1, 1, no_arguments, 0, nullptr), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(cudaLaunchKernel(&offset_host, 1, 1, no_arguments, 0, nullptr), cudaErrorInvalidDeviceFunction);
}

TEST(LaunchTest, EndsTheProcessWhenAKernelLeavesItsMemory) {
  float* device = Zeros();
  EXPECT_DEATH(
      {
        (void)Add(device, 1, kCount + 100, 3, 128);
        (void)cudaDeviceSynchronize();
      },
      "bounds");
}

}  // namespace
