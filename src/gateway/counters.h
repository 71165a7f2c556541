// Counts events since the gateway started.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "text/chat/concession.h"

namespace ingot::gateway {

// Thread safe.
struct Counters {
  std::atomic<int64_t> calls{0};        // answered, including errors
  std::atomic<int64_t> handed_over{0};  // passed to an engine
  std::atomic<int64_t> resumed{0};      // passed to another engine because the first was lost
  std::atomic<int64_t> waited{0};       // no engine accepted them immediately, so they were retried later
  std::atomic<int64_t> paused{0};       // slices that ended, after which the rest was passed to an engine
  std::atomic<int64_t> slice_failures{0};
  std::atomic<int64_t> completed{0};  // fully delivered
  std::atomic<int64_t> aborted{0};    // client disconnected, episode ended, or deadline exceeded
  std::atomic<int64_t> failed{0};     // all other failures
  std::atomic<int64_t> rejected{0};   // over a limit
  std::atomic<int64_t> spliced{0};
  std::atomic<int64_t> recorded{0};  // acknowledged by the pool
  std::atomic<int64_t> record_failures{0};
  std::atomic<int64_t> malformed_tool_calls{0};
  std::atomic<int64_t> tool_choice_unforced{0};  // calls that were required to use a tool but answered with text
  std::atomic<int64_t> flagged{0};               // sampled under a grammar, penalty, or bias, so not trained on
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> rendered_tokens{0};  // prompt tokens encoded from text for the call
  std::atomic<int64_t> cached_tokens{0};
  std::atomic<int64_t> sampled_tokens{0};
  std::atomic<int64_t> episodes_opened{0};
  std::atomic<int64_t> episodes_finished{0};
  std::atomic<int64_t> episodes_failed{0};
  std::atomic<int64_t> episodes_fenced{0};
  std::atomic<int64_t> episodes_never_called{0};     // also counted as finished or fenced
  std::atomic<int64_t> episodes_forked{0};           // trunks
  std::atomic<int64_t> episodes_ended_elsewhere{0};  // ended in the pool by another process
  std::atomic<int64_t> episodes_taken{0};            // taken over from another gateway or an earlier process
  std::atomic<int64_t> episodes_rejected{0};
  std::atomic<int64_t> active_calls{0};

  // Counts an answered call or a request that failed before its call began.
  void CountCall(const absl::Status& status, bool was_aborted);
  void AddFork(const std::string& cause) {
    base::MutexLock lock(mu_);
    ++forks_[cause];
  }
  std::map<std::string, int64_t> forks() const {
    base::MutexLock lock(mu_);
    return forks_;
  }
  // Counts the calls whose conversations needed each concession (text/chat/concession.h).
  std::array<std::atomic<int64_t>, text::kConcessions> concessions{};
  void AddConcessions(text::Concessions made);

 private:
  mutable base::Mutex mu_;
  std::map<std::string, int64_t> forks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
