#include "kernels/crew.h"

#include <algorithm>
#include <chrono>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ingot::kernels {
namespace {

// Longer than a forward pass's single-threaded work between two loops, but short compared with the time slice of a
// process that is waiting for the core.
constexpr auto kSpin = std::chrono::microseconds(30);

void Relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Returns true once `value` differs from `old`, or false if it does not change for a while.
bool SpinUntilChange(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 20; ++i) {
      if (value.load(std::memory_order_acquire) != old) return true;
      Relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// The parts of Crew::ranges_.
constexpr int kNextBits = 16;
constexpr uint64_t kNext = uint64_t{1} << kNextBits, kMask = kNext - 1;

}  // namespace

Crew::Crew(int threads) {
  try {
    Grow(threads);
  } catch (...) {
    Stop();
    throw;
  }
}

void Crew::Grow(int threads) {
  constexpr int kMost = static_cast<int>(kMask);
  while (this->threads() < std::min(threads, kMost)) {
    Other& other = *others_.emplace_back(std::make_unique<Other>());
    awake_.fetch_add(1, std::memory_order_relaxed);
    try {
      other.thread = std::thread([this, &other] { Work(other); });
    } catch (...) {
      awake_.fetch_sub(1, std::memory_order_relaxed);
      others_.pop_back();
      throw;
    }
  }
}

Crew::~Crew() { Stop(); }

void Crew::Start(Other& other) {
  other.round.fetch_add(1, std::memory_order_release);
  other.round.notify_one();
}

void Crew::Stop() {
  stopping_ = true;
  for (const auto& other : others_) Start(*other);
  for (const auto& other : others_) {
    if (other->thread.joinable()) other->thread.join();
  }
}

void Crew::Run(int64_t count, const std::function<void(int64_t, int64_t)>& body, int most) {
  const int64_t ranges = std::min<int64_t>(count, most > 0 ? std::min(most, threads()) : threads());
  if (ranges <= 1) {
    if (count > 0) body(0, count);
    return;
  }
  body_ = &body;
  count_ = count;
  share_ = (count + ranges - 1) / ranges;
  left_.store(static_cast<uint32_t>(ranges), std::memory_order_relaxed);
  const uint64_t loop = (ranges_.load(std::memory_order_relaxed) >> (2 * kNextBits)) + 1;
  ranges_.store(loop << (2 * kNextBits) | kNext | static_cast<uint64_t>(ranges), std::memory_order_release);
  for (int64_t other = 0; other < ranges - 1; ++other) Start(*others_[static_cast<size_t>(other)]);
  uint32_t ended = 0;
  for (int64_t place = 0; place >= 0; place = Take(), ++ended) RunRange(place);
  left_.fetch_sub(ended, std::memory_order_acq_rel);
  for (uint32_t left; (left = left_.load(std::memory_order_acquire)) > 0;) {
    if (!SpinUntilChange(left_, left)) left_.wait(left, std::memory_order_acquire);
  }
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

int64_t Crew::Take() {
  uint64_t ranges = ranges_.load(std::memory_order_acquire);
  while (true) {
    const uint64_t next = ranges >> kNextBits & kMask;
    if (next >= (ranges & kMask)) return -1;
    if (ranges_.compare_exchange_weak(ranges, ranges + kNext, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return static_cast<int64_t>(next);
    }
  }
}

void Crew::Work(Other& own) {
  for (uint32_t round = 0;;) {
    if (!SpinUntilChange(own.round, round)) {
      awake_.fetch_sub(1, std::memory_order_relaxed);
      own.round.wait(round, std::memory_order_acquire);
      awake_.fetch_add(1, std::memory_order_relaxed);
    }
    round = own.round.load(std::memory_order_acquire);
    if (stopping_) return;
    for (int64_t place; (place = Take()) >= 0;) {
      RunRange(place);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }
}

void Crew::RunRange(int64_t place) {
  const int64_t begin = std::min(count_, place * share_), end = std::min(count_, begin + share_);
  if (begin == end) return;
  try {
    (*body_)(begin, end);
  } catch (...) {
    const std::lock_guard lock(mu_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
}

}  // namespace ingot::kernels
