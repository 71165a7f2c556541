// What is freed a little at a time: all of it, soon, by another thread; where too much waits, by the caller.
#include "gateway/reclaimer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/mutex.h"

namespace ingot::gateway {
namespace {

// Counts parts that are gone, and by which threads.
class Gone {
 public:
  std::shared_ptr<const void> Part() {
    return {static_cast<const void*>(this), [this](const void*) {
              base::MutexLock lock(mu_);
              ++count_;
              by_.insert(std::this_thread::get_id());
              changed_.SignalAll();
            }};
  }
  Reclaimer::Parts Parts(size_t count) {
    Reclaimer::Parts parts;
    for (size_t i = 0; i < count; ++i) parts.push_back(Part());
    return parts;
  }
  size_t count() const {
    base::MutexLock lock(mu_);
    return count_;
  }
  std::set<std::thread::id> by() const {
    base::MutexLock lock(mu_);
    return by_;
  }
  void WaitFor(size_t count) {
    base::MutexLock lock(mu_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (count_ < count && std::chrono::steady_clock::now() < end) changed_.WaitFor(mu_, std::chrono::seconds(1));
    EXPECT_EQ(count_, count);
  }

 private:
  mutable base::Mutex mu_;
  base::CondVar changed_;
  size_t count_ = 0;
  std::set<std::thread::id> by_;
};

TEST(Reclaimer, FreesAllOnAThreadOfItsOwn) {
  Gone gone;
  Reclaimer reclaimer(1000);
  reclaimer.Free(gone.Parts(100));
  reclaimer.Free({});
  reclaimer.Free(gone.Parts(3));
  gone.WaitFor(103);
  EXPECT_EQ(gone.by().size(), 1u);
  EXPECT_FALSE(gone.by().contains(std::this_thread::get_id()));
}

TEST(Reclaimer, WhatAnotherHoldsStays) {
  Gone gone;
  Reclaimer reclaimer(1000);
  const Reclaimer::Parts held = gone.Parts(2);
  reclaimer.Free(held);
  reclaimer.Free(gone.Parts(1));
  gone.WaitFor(1);
}

TEST(Reclaimer, FreesAtOnceWhereTooManyWait) {
  Gone gone;
  Reclaimer reclaimer(10);
  reclaimer.Free(gone.Parts(11));
  EXPECT_EQ(gone.count(), 11u);
  EXPECT_TRUE(gone.by().contains(std::this_thread::get_id()));
}

TEST(Reclaimer, HoldsNothingOnceItIsGone) {
  Gone gone;
  {
    Reclaimer reclaimer(100'000);
    reclaimer.Free(gone.Parts(50'000));
  }
  EXPECT_EQ(gone.count(), 50'000u);
}

}  // namespace
}  // namespace ingot::gateway
