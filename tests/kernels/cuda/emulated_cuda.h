// Runs CUDA kernels on the CPU, one block at a time. So their arithmetic, their barriers and their use of shared memory
// are tested without a card. It lacks the card's memory model and speed, and has the C library's exp2.
//
// A thread of a block is a fiber that runs until its next barrier. A seed shuffles the order in which fibers run
// between two barriers: a kernel that lacks a barrier gives other results under another seed. A block or a warp whose
// threads do not all meet at a barrier is reported. Include this before the kernels. Not thread safe.
#pragma once

#include <gtest/gtest.h>
#include <math.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(threads)

namespace emulated_cuda {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

class Block {
 public:
  enum class Wait { kRunning, kWarp, kBlock, kDone };
  static constexpr int kWarp = 32;

  // Runs kernel() for every thread of the block.
  void Run(int threads, uint64_t seed, const std::function<void()>& kernel);

  void Barrier(Wait wait) {
    fibers_[current_].wait = wait;
    if (_setjmp(fibers_[current_].at) == 0) _longjmp(scheduler_, 1);
  }
  template <typename T>
  T Exchange(T value, int partner_bits) {
    const int self = current_;
    std::memcpy(&slots_[self], &value, sizeof(T));
    Barrier(Wait::kWarp);
    T other;
    std::memcpy(&other, &slots_[self ^ partner_bits], sizeof(T));
    Barrier(Wait::kWarp);
    return other;
  }

 private:
  struct Fiber {
    std::vector<char> stack;
    ucontext_t start;
    jmp_buf at;
    bool started = false;
    Wait wait = Wait::kRunning;
  };

  static void Enter();
  void Resume(int fiber);
  bool Release(int first, int last, Wait wait);

  std::vector<Fiber> fibers_;
  std::vector<uint64_t> slots_;
  const std::function<void()>* kernel_ = nullptr;
  int current_ = 0;
  jmp_buf scheduler_;
  ucontext_t back_;
};

inline Block block;
inline Index thread_index, block_index;

inline void Block::Enter() {
  (*block.kernel_)();
  block.fibers_[block.current_].wait = Wait::kDone;
  _longjmp(block.scheduler_, 1);
}

inline void Block::Resume(int fiber) {
  current_ = fiber;
  thread_index.x = static_cast<unsigned>(fiber);
  Fiber& f = fibers_[fiber];
  f.wait = Wait::kRunning;
  if (_setjmp(scheduler_) != 0) return;  // the fiber waits or has ended
  if (f.started) _longjmp(f.at, 1);
  f.started = true;
  swapcontext(&back_, &f.start);
}

// If all of [first, last) wait for the same barrier, lets them continue.
inline bool Block::Release(int first, int last, Wait wait) {
  for (int i = first; i < last; ++i) {
    if (fibers_[i].wait != wait) return false;
  }
  for (int i = first; i < last; ++i) fibers_[i].wait = Wait::kRunning;
  return true;
}

inline void Block::Run(int threads, uint64_t seed, const std::function<void()>& kernel) {
  constexpr size_t kStack = 64 * 1024;
  kernel_ = &kernel;
  fibers_.resize(threads);
  slots_.assign(threads, 0);
  for (Fiber& f : fibers_) {
    f.stack.resize(kStack);
    f.started = false;
    f.wait = Wait::kRunning;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack.data();
    f.start.uc_stack.ss_size = kStack;
    f.start.uc_link = &back_;
    makecontext(&f.start, &Block::Enter, 0);
  }
  std::vector<int> order(threads);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 rng(seed);
  for (;;) {
    if (seed != 0) std::shuffle(order.begin(), order.end(), rng);
    for (const int i : order) {
      if (fibers_[i].wait == Wait::kRunning) Resume(i);
    }
    bool released = Release(0, threads, Wait::kBlock);
    for (int warp = 0; warp < threads; warp += kWarp) {
      released |= Release(warp, std::min(threads, warp + kWarp), Wait::kWarp);
    }
    if (released) continue;
    for (const Fiber& f : fibers_) {
      if (f.wait != Wait::kDone) {
        ADD_FAILURE() << "threads of a block do not meet at a barrier";
        return;
      }
    }
    return;
  }
}

// Runs kernel(args) over a grid, blocks in ascending order.
template <typename Args>
void Launch(void (*kernel)(Args), Index grid, int threads, uint64_t seed, const Args& args) {
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        block.Run(threads, seed == 0 ? 0 : seed + x, [&] { kernel(args); });
      }
    }
  }
}

}  // namespace emulated_cuda

#define threadIdx emulated_cuda::thread_index
#define blockIdx emulated_cuda::block_index
inline void __syncthreads() { emulated_cuda::block.Barrier(emulated_cuda::Block::Wait::kBlock); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int bits) {
  return emulated_cuda::block.Exchange(value, bits);
}
