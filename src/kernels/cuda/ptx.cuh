// Inline PTX for the tensor-core kernels: instructions of sm_80 that CUDA C++ has no function for. No other file of
// src/ contains inline PTX. Fragment layouts: PTX ISA, "Matrix fragments for mma.m16n8k16".
#pragma once

#include <cstdint>

namespace ingot::kernels::cuda::ptx {

// Returns the address of shared memory in the form that the instructions below take.
__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Returns pointer + count * bytes, in one instruction.
__device__ __forceinline__ const char* Offset(const char* pointer, uint32_t count, uint32_t bytes) {
  const char* result;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(result) : "r"(count), "r"(bytes), "l"(pointer));
  return result;
}

// Starts a copy of 16 bytes from global to shared memory. Both addresses must be 16-byte aligned.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Same as CopyAsync if `reads`. Otherwise writes 16 bytes of zeros; `from` must still be a valid address.
__device__ __forceinline__ void CopyAsyncOrZero(uint32_t to, const void* from, bool reads) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(reads ? 16 : 0) : "memory");
}

// Ends a group of the thread's copies: those since the last group. May be empty.
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Blocks until at most kPending of the thread's last groups are not in shared memory yet.
template <int kPending>
__device__ __forceinline__ void WaitForCopyGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Blocks until the thread's copies are in shared memory. Other threads see them after a barrier.
__device__ __forceinline__ void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8 (16 bytes), and
// receives elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each matrix.
__device__ __forceinline__ void LoadMatrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

// Same as LoadMatrices, but transposes each matrix.
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

// c += a b, for a 16 x 16 and b 16 x 8 in bf16 and c 16 x 8 in fp32.
__device__ __forceinline__ void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rounds two numbers to bf16, ties to even. `low` is in the lower half.
__device__ __forceinline__ uint32_t PackBFloat16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// 2^x with a relative error of about 2^-22; 0 below 2^-126. Exact for 0 and the infinities.
__device__ __forceinline__ float ApproximateExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace ingot::kernels::cuda::ptx
