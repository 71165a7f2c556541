#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "standin/runtime/device.h"
#include "standin/runtime/kernels.h"
#include "standin/runtime/settings.h"
#include "standin/runtime/standin.h"
#include "standin/runtime/streams.h"

namespace ingot::standin {
namespace {

// Counts of the process, and its last line if they are asked for.
struct Statistics {
  std::atomic<uint64_t> launches{0}, instructions{0}, microseconds{0};
  std::atomic<uint64_t> queued{0}, operators{0};
  ~Statistics() {
    if (!GetSettings().statistics) return;
    std::fprintf(stderr, "stand-in ran %llu launches, %.1f million instructions of warps in %.1f s\n",
                 static_cast<unsigned long long>(launches), 1e-6 * static_cast<double>(instructions),
                 1e-6 * static_cast<double>(microseconds));
  }
};
Statistics statistics;

// Registers of a thread. PTX declares one per value, before any allocation, so this is an upper bound of what ptxas takes: it keeps to 255,
// to `.maxnreg`, and to what `.maxntid` and `.minnctapersm` leave to a thread. A warp's registers are a multiple of 256.
unsigned RegistersPerThread(const ptx::Kernel& kernel) {
  const unsigned warps = (kernel.max_threads + 31) / 32 * std::max(kernel.min_blocks, 1u);
  unsigned most = std::clamp(65536 / warps / 256 * 256 / 32, 8u, 255u);
  if (kernel.max_registers != 0) most = std::min(most, kernel.max_registers);
  return std::min(kernel.registers, most);
}

bool Faults(uint64_t launch) {
  const Settings& s = GetSettings();
  if (launch != static_cast<uint64_t>(s.faulting_launch)) return false;
  const int file = s.fault_file == nullptr ? -1 : ::open(s.fault_file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return s.fault_file == nullptr || file >= 0;
}

bool Outside(const dim3& d, unsigned x, unsigned y, unsigned z) {
  return d.x == 0 || d.y == 0 || d.z == 0 || d.x > x || d.y > y || d.z > z;
}

// What the driver checks before a launch (CUDA C++ Programming Guide, table of technical specifications).
cudaError_t CheckLimits(const Function& function, const ptx::Kernel& kernel, dim3 grid, dim3 block, size_t dynamic) {
  if (Outside(grid, 2147483647, 65535, 65535)) {
    return Fail(cudaErrorInvalidConfiguration, "%s: grid %u x %u x %u", function.name, grid.x, grid.y, grid.z);
  }
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (Outside(block, 1024, 1024, 64) || threads > 1024) {
    return Fail(cudaErrorInvalidConfiguration, "%s: block %u x %u x %u", function.name, block.x, block.y, block.z);
  }
  if (threads > kernel.max_threads) {
    return Fail(cudaErrorInvalidValue, "%s: %llu threads, but its launch bound is %u", function.name,
                static_cast<unsigned long long>(threads), kernel.max_threads);
  }
  const size_t allowed = std::max(kSharedBytes, kernel.static_shared_bytes + function.dynamic_shared_bytes);
  if (kernel.static_shared_bytes + dynamic > std::min(allowed, MostSharedBytes())) {
    return Fail(cudaErrorInvalidValue, "%s: %zu bytes of shared memory; cudaFuncSetAttribute allowed %zu",
                function.name, kernel.static_shared_bytes + dynamic, allowed);
  }
  return cudaSuccess;
}

std::vector<std::byte> Packed(const ptx::Kernel& kernel, void** arguments) {
  std::vector<std::byte> packed(kernel.parameter_bytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    std::memcpy(packed.data() + kernel.parameters[i].offset, arguments[i], kernel.parameters[i].bytes);
  }
  return packed;
}

void Run(ptx::Module& module, const ptx::Kernel& kernel, const ptx::Launch& launch,
         std::span<const std::byte> parameters) {
  const uint64_t number = ++statistics.launches;
  if (Faults(number)) return BreakDevice(static_cast<cudaError_t>(GetSettings().fault));
  try {
    ptx::Options options = GetSettings().machine;
    options.seed += number;
    const auto begin = std::chrono::steady_clock::now();
    const ptx::Outcome outcome = module.Run(kernel, launch, parameters, options);
    const auto taken = std::chrono::steady_clock::now() - begin;
    statistics.instructions += outcome.counters.instructions;
    statistics.microseconds += std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
    for (const ptx::Report& report : outcome.reports) {
      std::fprintf(stderr, "stand-in: %s: %s\n", report.kind.c_str(), report.text.c_str());
    }
    if (!outcome.reports.empty()) Die("kernel %s committed the faults above", kernel.name.c_str());
  } catch (const ptx::Error& error) {
    Die("kernel %s: %s", kernel.name.c_str(), error.what());
  }
}

}  // namespace

cudaError_t Launch(Function* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   cudaStream_t handle) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  if (function == nullptr) return Fail(cudaErrorInvalidDeviceFunction, "launch of a function that is not registered");
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "launch of %s on no stream", function->name);
  ptx::Module* module = GetKernels().Load(*function->binary);
  const ptx::Kernel* kernel = module == nullptr ? nullptr : module->FindKernel(function->name);
  if (kernel == nullptr) return Fail(cudaErrorNoKernelImageForDevice, "%s has no PTX for this device", function->name);
  if (const cudaError_t error = CheckLimits(*function, *kernel, grid, block, shared_bytes); error != cudaSuccess) {
    return error;
  }
  ++statistics.queued;
  const ptx::Launch launch{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes};
  GetStreams().Push(stream, [module, kernel, launch, parameters = Packed(*kernel, arguments)] {
    Run(*module, *kernel, launch, parameters);
  });
  return cudaSuccess;
}

}  // namespace ingot::standin

using namespace ingot::standin;

uint64_t ingot_standin_launches() { return statistics.queued; }
uint64_t ingot_standin_operators() { return statistics.operators; }
void ingot_standin_count_operator() { ++statistics.operators; }

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared_bytes = c.shared_bytes;
  std::memcpy(stream, &c.stream, sizeof(c.stream));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return Launch(reinterpret_cast<Function*>(kernel), grid, block, arguments, shared_bytes, stream);
}

}  // extern "C"

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  return Launch(GetKernels().Find(host), grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** arguments) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      return Fail(cudaErrorNotSupported, "launches of clusters are not built");
    }
  }
  return cudaLaunchKernel(host, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  Function* function = GetKernels().Find(host);
  if (function == nullptr) return Fail(cudaErrorInvalidDeviceFunction, "cudaFuncSetAttribute of no kernel");
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<size_t>(value) > MostSharedBytes()) {
    return Fail(cudaErrorInvalidValue, "%s asks for %d bytes of shared memory; a block may have %zu", function->name,
                value, MostSharedBytes());
  }
  function->dynamic_shared_bytes = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  std::memset(attributes, 0, sizeof(*attributes));
  Function* function = GetKernels().Find(host);
  ptx::Module* module = function == nullptr ? nullptr : GetKernels().Load(*function->binary);
  const ptx::Kernel* kernel = module == nullptr ? nullptr : module->FindKernel(function->name);
  if (kernel == nullptr) return Fail(cudaErrorInvalidDeviceFunction, "cudaFuncGetAttributes of no kernel with PTX");
  attributes->sharedSizeBytes = kernel->static_shared_bytes;
  attributes->maxThreadsPerBlock = static_cast<int>(kernel->max_threads);
  attributes->numRegs = static_cast<int>(RegistersPerThread(*kernel));
  attributes->ptxVersion = attributes->binaryVersion = GetSettings().capability;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(std::max(kSharedBytes, function->dynamic_shared_bytes));
  return cudaSuccess;
}
