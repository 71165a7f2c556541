// Chooses which set of compiled inner loops this machine runs. Compiled for the baseline.
#include <atomic>
#include <cstring>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_inner.h"
#include "kernels/draws/race_inner.h"
#include "kernels/simd/inner.h"

namespace ingot::kernels {
namespace {

enum Level { kPortable = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAmx = 4 };
constexpr const char* kNames[] = {"portable", "avx2", "avx512", "avx512bf16", "amx"};

Level Detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (inner::Avx512<float>() != nullptr && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    const bool bf16 = inner::AttentionAvx512Bf16<BFloat16>() != nullptr && inner::Avx512Bf16<BFloat16>() != nullptr &&
                      __builtin_cpu_supports("avx512bf16");
    if (!bf16) return kAvx512;
    const bool built = inner::AttentionAmx<BFloat16>() != nullptr && inner::Amx<BFloat16>() != nullptr;
    return built && inner::MayUseTiles() ? kAmx : kAvx512Bf16;
  }
  if (inner::Avx2<float>() != nullptr && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kPortable;
}

std::atomic<int>& Current() {
  static std::atomic<int> level{Detect()};
  return level;
}

}  // namespace

const char* InstructionSet() { return kNames[Current().load(std::memory_order_relaxed)]; }

const char* LimitInstructionSet(const char* name) {
  for (int level = kPortable; level < kAmx; ++level) {
    if (level < Current().load() && std::strcmp(kNames[level], name) == 0) Current().store(level);
  }
  return InstructionSet();
}

namespace inner {

// Returns whether the machine has tile registers and the kernel allows this process to use them. Their state makes a
// thread's saved context and its signal frames 8 KiB larger, so Linux requires a request
// (Documentation/arch/x86/xstate.rst). The request covers all threads, including future ones, and may be repeated. It
// is denied if a thread's signal stack is too small.
bool MayUseTiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;  // of leaf 7, edx
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTile) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

template <typename T>
const Kernels<T>& Get() {
  switch (Current().load(std::memory_order_relaxed)) {
    case kAmx:
      if constexpr (std::is_same_v<T, BFloat16>) return *Amx<T>();
      [[fallthrough]];
    case kAvx512Bf16:
      if constexpr (std::is_same_v<T, BFloat16>) return *Avx512Bf16<T>();
      [[fallthrough]];
    case kAvx512:
      return *Avx512<T>();
    case kAvx2:
      return *Avx2<T>();
    default:
      return *Portable<T>();
  }
}
template const Kernels<float>& Get<float>();
template const Kernels<double>& Get<double>();
template const Kernels<BFloat16>& Get<BFloat16>();

template <typename T>
const AttentionKernels<T>& GetAttention() {
  switch (Current().load(std::memory_order_relaxed)) {
    case kAmx:
      if constexpr (std::is_same_v<T, BFloat16>) return *AttentionAmx<T>();
      [[fallthrough]];
    case kAvx512Bf16:
      if constexpr (std::is_same_v<T, BFloat16>) return *AttentionAvx512Bf16<T>();
      [[fallthrough]];
    case kAvx512:
      return *AttentionAvx512<T>();
    case kAvx2:
      return *AttentionAvx2<T>();
    default:
      return *AttentionPortable<T>();
  }
}
template const AttentionKernels<BFloat16>& GetAttention<BFloat16>();
template const AttentionKernels<float>& GetAttention<float>();
template const AttentionKernels<double>& GetAttention<double>();

const RaceKernels& GetRace() {
  const int level = Current().load(std::memory_order_relaxed);
  return *(level >= kAvx512 ? RaceAvx512() : level == kAvx2 ? RaceAvx2() : RacePortable());
}

}  // namespace inner
}  // namespace ingot::kernels
