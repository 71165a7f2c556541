// Helpers for tests of engines: Collect gathers one request's chunks, StepGate is a turnstile for forward passes.
// Nothing sleeps. Every wait is for an event, with a limit that only a broken engine reaches.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "base/mutex.h"
#include "rollout/client.h"

namespace ingot::rollout {

inline constexpr std::chrono::seconds kTimeout{60};

class Collect {
 public:
  Client::OnChunk OnChunk() {
    return [this](absl::StatusOr<v1::GenerateChunk> chunk) { TakeChunk(std::move(chunk)); };
  }

  // Waits until the request ended. Returns its error, or OK.
  absl::Status Wait() {
    base::MutexLock lock(mu_);
    while (!ended_) {
      if (!changed_.WaitFor(mu_, kTimeout)) return absl::DeadlineExceededError("the request did not end");
    }
    return error_;
  }
  void WaitForTokens(size_t count) {
    base::MutexLock lock(mu_);
    while (!ended_ && ids.size() < count) ASSERT_TRUE(changed_.WaitFor(mu_, kTimeout));
  }
  void WaitForVersion(int64_t version) {
    base::MutexLock lock(mu_);
    while (!ended_ && (versions.empty() || versions.back().version() != version)) {
      ASSERT_TRUE(changed_.WaitFor(mu_, kTimeout));
    }
  }
  void Finish() {
    base::MutexLock lock(mu_);
    ended_ = true;
    changed_.SignalAll();
  }
  // From here on a chunk is a fault. Destroy the Collect soon after, so that a sanitizer sees a late chunk too.
  void ExpectNothingMore() {
    base::MutexLock lock(mu_);
    closed_ = true;
  }

  // Read after Wait.
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<v1::VersionRun> versions;
  std::vector<v1::TopLogprobs> top;
  std::string routes;
  std::vector<int32_t> alternative_ids;
  std::vector<float> alternative_logprobs;
  v1::GenerateChunk last;

 private:
  void TakeChunk(absl::StatusOr<v1::GenerateChunk> chunk) {
    base::MutexLock lock(mu_);
    EXPECT_FALSE(closed_) << "a chunk after the request was destroyed";
    EXPECT_FALSE(ended_) << "a chunk after the last";
    if (!chunk.ok()) {
      error_ = chunk.status();
      ended_ = true;
    } else {
      ids.insert(ids.end(), chunk->token_ids().begin(), chunk->token_ids().end());
      logprobs.insert(logprobs.end(), chunk->logprobs().begin(), chunk->logprobs().end());
      versions.insert(versions.end(), chunk->versions().begin(), chunk->versions().end());
      routes += chunk->routes();
      alternative_ids.insert(alternative_ids.end(), chunk->alternative_ids().begin(), chunk->alternative_ids().end());
      alternative_logprobs.insert(alternative_logprobs.end(), chunk->alternative_logprobs().begin(),
                                  chunk->alternative_logprobs().end());
      top.insert(top.end(), chunk->top_logprobs().begin(), chunk->top_logprobs().end());
      ended_ = chunk->finish() != v1::FINISH_UNSPECIFIED;
      last = *std::move(chunk);
    }
    changed_.SignalAll();
  }

  base::Mutex mu_;
  base::CondVar changed_;
  absl::Status error_;
  bool ended_ = false;
  bool closed_ = false;
};

// Open at first. Closed, it lets a counted number of passes through and holds the others.
class StepGate {
 public:
  void Pass() {
    base::MutexLock lock(mu_);
    ++held_;
    changed_.SignalAll();
    while (left_ == 0) changed_.Wait(mu_);
    --held_;
    if (left_ > 0) --left_;
  }
  // Waits until a blocked step has begun.
  void AwaitHeld() {
    base::MutexLock lock(mu_);
    while (held_ == 0 || left_ != 0) changed_.Wait(mu_);
  }
  void Close() { Set(0); }
  void Let(int count) { Set(count); }
  void Open() { Set(-1); }

 private:
  void Set(int left) {
    base::MutexLock lock(mu_);
    left_ = left;
    changed_.SignalAll();
  }
  base::Mutex mu_;
  base::CondVar changed_;
  int left_ = -1;  // steps that may continue; -1 = all
  int held_ = 0;   // steps inside Pass
};

}  // namespace ingot::rollout
