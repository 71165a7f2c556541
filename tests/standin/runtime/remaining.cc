// Names of errors, and functions that torch's libraries name but that no test here reaches: each refuses with its own name.
#include <cstring>

#include "standin/runtime/device.h"

using namespace ingot::standin;

namespace {

cudaError_t NotBuilt(const char* function) {
  return Fail(cudaErrorNotSupported, "%s is not built in the stand-in", function);
}

// What a driver's function that the stand-in lacks returns: CUDA_ERROR_NOT_SUPPORTED.
int DriverNotSupported() { return 801; }

}  // namespace

// The driver's own function, which torch asks whether a device is in use. Its name comes before the one of the stub of libcuda.so.1, since
// this library is loaded first.
extern "C" int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAME(error) \
  case error:       \
    return #error
    NAME(cudaSuccess);
    NAME(cudaErrorInvalidValue);
    NAME(cudaErrorMemoryAllocation);
    NAME(cudaErrorInvalidConfiguration);
    NAME(cudaErrorInvalidSymbol);
    NAME(cudaErrorInvalidDeviceFunction);
    NAME(cudaErrorInsufficientDriver);
    NAME(cudaErrorNoDevice);
    NAME(cudaErrorIllegalAddress);
    NAME(cudaErrorLaunchFailure);
    NAME(cudaErrorECCUncorrectable);
    NAME(cudaErrorInvalidDevice);
    NAME(cudaErrorNoKernelImageForDevice);
    NAME(cudaErrorInvalidResourceHandle);
    NAME(cudaErrorIllegalState);
    NAME(cudaErrorNotReady);
    NAME(cudaErrorHostMemoryNotRegistered);
    NAME(cudaErrorNotSupported);
    NAME(cudaErrorInvalidClusterSize);
    NAME(cudaErrorStreamCaptureUnsupported);
    NAME(cudaErrorStreamCaptureInvalidated);
    NAME(cudaErrorStreamCaptureMerge);
    NAME(cudaErrorStreamCaptureUnjoined);
    NAME(cudaErrorStreamCaptureIsolation);
#undef NAME
    default:
      return "cudaErrorUnknown";
  }
}

// The runtime's own words for the errors that a program may show.
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    default:
      return cudaGetErrorName(error);
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool context = std::strcmp(name, "cuDevicePrimaryCtxGetState") == 0;
  *function =
      context ? reinterpret_cast<void*>(cuDevicePrimaryCtxGetState) : reinterpret_cast<void*>(DriverNotSupported);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

#define NOT_BUILT(function, ...) \
  cudaError_t function(__VA_ARGS__) { return NotBuilt(#function); }
NOT_BUILT(cudaDeviceGetDefaultMemPool, cudaMemPool_t*, int)
NOT_BUILT(cudaFreeAsync, void*, cudaStream_t)
NOT_BUILT(cudaMallocAsync, void**, size_t, cudaStream_t)
NOT_BUILT(cudaMemPoolGetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
NOT_BUILT(cudaMemPoolSetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
NOT_BUILT(cudaMemPoolSetAccess, cudaMemPool_t, const cudaMemAccessDesc*, size_t)
NOT_BUILT(cudaMemPoolTrimTo, cudaMemPool_t, size_t)
NOT_BUILT(cudaGraphDebugDotPrint, cudaGraph_t, const char*, unsigned)
NOT_BUILT(cudaGraphNodeGetDependencies, cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*, size_t*)
NOT_BUILT(cudaIpcCloseMemHandle, void*)
NOT_BUILT(cudaIpcGetEventHandle, cudaIpcEventHandle_t*, cudaEvent_t)
NOT_BUILT(cudaIpcGetMemHandle, cudaIpcMemHandle_t*, void*)
NOT_BUILT(cudaIpcOpenEventHandle, cudaEvent_t*, cudaIpcEventHandle_t)
NOT_BUILT(cudaIpcOpenMemHandle, void**, cudaIpcMemHandle_t, unsigned)
NOT_BUILT(cudaLaunchCooperativeKernel, const void*, dim3, dim3, void**, size_t, cudaStream_t)
#undef NOT_BUILT
