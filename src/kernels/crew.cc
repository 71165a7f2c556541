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

// Returns once `value` differs from `old`.
void AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 20; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      Relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Crew::Crew(int threads) {
  try {
    for (int place = 1; place < threads; ++place) {
      Other& other = *others_.emplace_back(std::make_unique<Other>());
      other.thread = std::thread([this, &other, place] { Work(other, place); });
    }
  } catch (...) {
    Stop();
    throw;
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

void Crew::Run(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t ranges = std::min<int64_t>(count, threads());
  if (ranges <= 1) {
    if (count > 0) body(0, count);
    return;
  }
  body_ = &body;
  count_ = count;
  share_ = (count + ranges - 1) / ranges;
  at_work_.store(static_cast<uint32_t>(ranges - 1), std::memory_order_relaxed);
  for (int64_t place = 1; place < ranges; ++place) Start(*others_[static_cast<size_t>(place - 1)]);
  RunRange(0);
  for (uint32_t left; (left = at_work_.load(std::memory_order_acquire)) > 0;) AwaitChange(at_work_, left);
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Crew::Work(Other& own, int64_t place) {
  for (uint32_t round = 0;; ++round) {
    AwaitChange(own.round, round);
    if (stopping_) return;
    RunRange(place);
    if (at_work_.fetch_sub(1, std::memory_order_acq_rel) == 1) at_work_.notify_one();
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
