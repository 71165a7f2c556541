// The stand-in itself, by the runtime's functions alone, in the lazy mode unless INGOT_STANDIN_STREAMS orders another. Each mistake that it
// exists to find is planted here.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

float* DeviceFloats() {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, kBytes), cudaSuccess);
  return static_cast<float*>(pointer);
}

float* PinnedFloats(float value) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaHostAlloc(&pointer, kBytes, 0), cudaSuccess);
  std::fill_n(static_cast<float*>(pointer), kCount, value);
  return static_cast<float*>(pointer);
}

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  return stream;
}

void Copy(float* to, const float* from, cudaStream_t stream) {
  ASSERT_EQ(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream), cudaSuccess);
}

// The first float of device memory, after all work.
float First(const float* device) {
  float value = 0;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

// Expects what a stream whose work nobody waited for has left: `late` in the lazy mode, `now` in the eager one, either in the random one.
void ExpectUnwaited(float value, float late, float now) {
  const char* set = std::getenv("INGOT_STANDIN_STREAMS");
  const std::string mode = set == nullptr ? "lazy" : set;
  if (mode != "eager" && value == late) return;
  EXPECT_EQ(value, mode == "lazy" ? late : now);
}

TEST(MemoryTest, NamesAHostAccess) {
  float* device = DeviceFloats();
  volatile float* read = device + 3;
  EXPECT_DEATH((void)*read, "the host accessed device memory: byte 12 of an allocation of 256 bytes");
  EXPECT_DEATH(std::memset(device, 0, kBytes), "the host accessed device memory: byte 0 of");
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_DEATH((void)*read, "the host accessed device memory that is not allocated");
}

TEST(MemoryTest, FreshMemoryIsNotANumberOrZeroOnRequest) {
  const char* const fresh = std::getenv("INGOT_STANDIN_FRESH");
  const bool zero = fresh != nullptr && std::string(fresh) == "zero";
  float* device = DeviceFloats();
  EXPECT_EQ(std::isnan(First(device)), !zero);
  EXPECT_TRUE(!zero || First(device) == 0);
  ASSERT_EQ(cudaMemset(device, 0, kBytes), cudaSuccess);
  EXPECT_EQ(First(device), 0);
  ASSERT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(std::isnan(First(DeviceFloats())), !zero);  // the same place again
}

TEST(MemoryTest, RefusesWhatLeavesAnAllocation) {
  float* device = DeviceFloats();
  float host[2 * kCount] = {};
  EXPECT_EQ(cudaMemcpy(host, device, kBytes + 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device + kCount - 1, 0, 5), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(MemoryTest, TellsPointersApart) {
  cudaPointerAttributes attributes;
  float host = 0;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, DeviceFloats() + 5), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, PinnedFloats(0) + 5), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &host), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

// Runs with 8 MB of memory, the third allocation failing.
TEST(SmallDeviceTest, FailsAsOrdered) {
  size_t free = 0, total = 0;
  void *first = nullptr, *second = nullptr, *third = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  ASSERT_EQ(total, size_t{8} << 20) << "run by ctest, which sets the environment";
  EXPECT_EQ(free, total);
  EXPECT_EQ(cudaMalloc(&first, 5 << 20), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 5 << 20), cudaErrorMemoryAllocation);  // too large for what is left
  EXPECT_STREQ(cudaGetErrorString(cudaGetLastError()), "out of memory");
  EXPECT_EQ(cudaMalloc(&third, 1), cudaErrorMemoryAllocation);  // the third
  EXPECT_EQ(cudaMalloc(&third, 1), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 5 << 20), cudaSuccess);
}

// Runs with 8 MB of memory, of which another process takes 6 after the first allocation.
TEST(OrderedMemoryTest, IsSharedWithAnotherProcess) {
  size_t free = 0, total = 0;
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, size_t{8} << 20);
  ASSERT_EQ(cudaMalloc(&first, 1 << 20), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, size_t{1} << 20);
  EXPECT_EQ(cudaMalloc(&second, 2 << 20), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&second, 1 << 20), cudaSuccess);
}

// Runs with every allocation failing from the second on.
TEST(OrderedAllocationsTest, FailFromTheSecondOn) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaHostAlloc(&pointer, 1, 0), cudaErrorMemoryAllocation);
}

// Runs with a driver for CUDA 12.4.
TEST(OrderedDriverTest, IsOlderThanTheRuntime) {
  int count = -1, driver = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(driver, 12040);
}

TEST(StreamTest, FindsAMissingWait) {
  float *device = DeviceFloats(), *out = PinnedFloats(-1), *in = PinnedFloats(5);
  const cudaStream_t stream = NewStream();
  Copy(device, in, stream);
  Copy(out, device, stream);
  ExpectUnwaited(out[0], -1, 5);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(out[0], 5);
}

TEST(StreamTest, FindsAReusedPinnedBlock) {
  float *device = DeviceFloats(), *in = PinnedFloats(5);
  Copy(device, in, NewStream());
  in[0] = 9;  // the copy may not have read it
  ExpectUnwaited(First(device), 9, 5);
}

TEST(StreamTest, ReadsPageableMemoryInTheCall) {
  float* device = DeviceFloats();
  std::vector<float> in(kCount, 5), out(kCount, -1);
  const cudaStream_t stream = NewStream();
  Copy(device, in.data(), stream);
  in[0] = 9;
  Copy(out.data(), device, stream);
  EXPECT_EQ(out[0], 5);
}

TEST(StreamTest, FindsAMissingEvent) {
  float *device = DeviceFloats(), *out = PinnedFloats(-1), *in = PinnedFloats(7);
  ASSERT_EQ(cudaMemset(device, 0, kBytes), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const cudaStream_t writer = NewStream(), reader = NewStream();
  Copy(device, in, writer);
  Copy(out, device, reader);
  ASSERT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
  ExpectUnwaited(out[0], 0, 7);

  cudaEvent_t written = nullptr;
  ASSERT_EQ(cudaEventCreate(&written), cudaSuccess);
  in[0] = 8;
  Copy(device, in, writer);
  ASSERT_EQ(cudaEventRecord(written, writer), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(reader, written, 0), cudaSuccess);
  Copy(out, device, reader);
  ASSERT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
  EXPECT_EQ(out[0], 8);
}

// The default stream waits for streams that block, and they for it.
TEST(StreamTest, DefaultStreamOrdersStreamsThatBlock) {
  float *device = DeviceFloats(), *out = PinnedFloats(-1), *in = PinnedFloats(7);
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  Copy(device, in, blocking);
  Copy(out, device, nullptr);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(out[0], 7);
  ASSERT_EQ(cudaMemsetAsync(device, 0, kBytes, nullptr), cudaSuccess);
  Copy(out, device, blocking);
  ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(out[0], 0);
}

TEST(StreamTest, AnEventBecomesReadyForWhoeverAsksLongEnough) {
  float *device = DeviceFloats(), *in = PinnedFloats(5);
  const cudaStream_t stream = NewStream();
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  Copy(device, in, stream);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  int questions = 1;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++questions;
  EXPECT_LE(questions, 1000);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST(StreamTest, CallsHostFunctionsInOrder) {
  static std::string order;
  order.clear();
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cudaLaunchHostFunc(stream, [](void*) { order += 'a'; }, nullptr), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, [](void*) { order += 'b'; }, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

TEST(GraphTest, ReplaysWithLateValues) {
  float *device = DeviceFloats(), *out = PinnedFloats(-1), *in = PinnedFloats(1);
  const cudaStream_t stream = NewStream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  Copy(device, in, stream);
  Copy(out, device, stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(out[0], -1);  // a capture runs nothing

  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (const float value : {2.f, 3.f}) {
    in[0] = value;
    const float before = out[0];
    ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    ExpectUnwaited(out[0], before, value);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(out[0], value);
  }
  ASSERT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
}

// A call that a capture forbids returns an error and spoils the capture.
template <typename F>
void ExpectForbidden(const F& call, cudaError_t error = cudaErrorStreamCaptureUnsupported) {
  const cudaStream_t stream = NewStream();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(call(stream), error);
  cudaStreamCaptureStatus status;
  ASSERT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
}

TEST(GraphTest, RefusesWhatACaptureForbids) {
  float* device = DeviceFloats();
  float host[kCount] = {};
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, NewStream()), cudaSuccess);
  ExpectForbidden([](cudaStream_t s) { return cudaStreamSynchronize(s); });
  ExpectForbidden([](cudaStream_t s) { return cudaStreamQuery(s); });
  ExpectForbidden([](cudaStream_t) { return cudaDeviceSynchronize(); });
  ExpectForbidden([&](cudaStream_t) { return cudaEventSynchronize(event); });
  ExpectForbidden([&](cudaStream_t) { return cudaFree(device); });
  ExpectForbidden([&](cudaStream_t s) { return cudaMemcpyAsync(device, host, kBytes, cudaMemcpyDefault, s); });
  ExpectForbidden([&](cudaStream_t s) { return cudaStreamWaitEvent(s, event, 0); }, cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
}

TEST(GraphTest, ARelaxedThreadMayAllocate) {
  const cudaStream_t stream = NewStream();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_NE(DeviceFloats(), nullptr);
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
}

TEST(GraphTest, StreamsForkAndMustRejoin) {
  float *device = DeviceFloats(), *in = PinnedFloats(1);
  const cudaStream_t stream = NewStream(), other = NewStream();
  cudaEvent_t fork = nullptr, join = nullptr;
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  for (const bool joined : {true, false}) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other, fork, 0), cudaSuccess);
    Copy(device, in, other);
    ASSERT_EQ(cudaEventRecord(join, other), cudaSuccess);
    if (joined) {
      ASSERT_EQ(cudaStreamWaitEvent(stream, join, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
  }
}

}  // namespace
