#include "standin/runtime/device.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "standin/runtime/memory.h"
#include "standin/runtime/operators_loader.h"
#include "standin/runtime/settings.h"

namespace ingot::standin {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> device_fault{cudaSuccess};

Model ModelOf(int capability) {
  if (capability >= 120) return {170, 99 << 10, 100 << 10, 1024, 1536, 24};
  if (capability >= 90) return {132, 227 << 10, 228 << 10, 1024, 2048, 32};
  if (capability == 89) return {128, 99 << 10, 100 << 10, 1024, 1536, 24};
  if (capability == 86) return {84, 99 << 10, 100 << 10, 1024, 1536, 16};
  if (capability >= 80) return {108, 163 << 10, 164 << 10, 1024, 2048, 32};
  if (capability >= 75) return {40, 64 << 10, 64 << 10, 0, 1024, 16};
  return {80, 96 << 10, 96 << 10, 0, 2048, 32};
}

}  // namespace

int CurrentDevice() { return current_device; }
void SetCurrentDevice(int device) { current_device = device; }

cudaError_t Done(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t Fail(cudaError_t error, const char* why, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, why);
  std::vsnprintf(text, sizeof(text), why, arguments);
  va_end(arguments);
  std::fprintf(stderr, "stand-in: %s: %s\n", cudaGetErrorName(error), text);
  return Done(error);
}

cudaError_t LastError(bool clear) {
  const cudaError_t error = DeviceFault() != cudaSuccess ? DeviceFault() : last_error;
  if (clear) last_error = cudaSuccess;
  return error;
}

void BreakDevice(cudaError_t fault) {
  std::fprintf(stderr, "stand-in: %s: ordered by INGOT_STANDIN_FAULT\n", cudaGetErrorName(fault));
  device_fault = fault;
}

cudaError_t DeviceFault() { return device_fault; }

Model CurrentModel() { return ModelOf(GetSettings().capability); }

size_t MostSharedBytes() { return CurrentModel().block_shared; }

}  // namespace ingot::standin

using namespace ingot::standin;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (GetSettings().driver_version / 1000 < CUDART_VERSION / 1000) return Done(cudaErrorInsufficientDriver);
  LoadOperators();
  *count = GetSettings().devices;
  return Done(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  *device = CurrentDevice();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= GetSettings().devices) return Fail(cudaErrorInvalidDevice, "no device %d", device);
  SetCurrentDevice(device);
  return DeviceFault();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= GetSettings().devices) return Done(cudaErrorInvalidDevice);
  const Settings& s = GetSettings();
  const Model model = ModelOf(s.capability);
  std::memset(p, 0, sizeof(*p));
  std::snprintf(p->name, sizeof(p->name), "stand-in of sm_%d", s.capability);
  p->totalGlobalMem = s.memory_bytes;
  p->major = s.capability / 10;
  p->minor = s.capability % 10;
  p->multiProcessorCount = model.multiprocessors;
  p->sharedMemPerBlock = kSharedBytes;
  p->sharedMemPerBlockOptin = model.block_shared;
  p->sharedMemPerMultiprocessor = model.shared;
  p->reservedSharedMemPerBlock = model.reserved_shared;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = static_cast<int>(model.threads);
  p->maxBlocksPerMultiProcessor = static_cast<int>(model.blocks);
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->textureAlignment = 512;
  p->l2CacheSize = 40 << 20;
  p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = p->asyncEngineCount = 1;
  p->pciDeviceID = device;
  p->cooperativeLaunch = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = p.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = p.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = p.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = p.maxGridSize[2];
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrClockRate:
      *value = 1410000;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = 1215000;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 5120;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = p.cooperativeLaunch;
      break;
    default:
      return Fail(cudaErrorNotSupported, "attribute %d of a device is not built", static_cast<int>(attribute));
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:00:%02x.0", device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = GetSettings().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return LastError(true); }
cudaError_t cudaPeekAtLastError() { return LastError(false); }
