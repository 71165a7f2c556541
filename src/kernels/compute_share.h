// Lends compute threads between the members of a run that compute on one machine: the trainer's ranks and the rollout
// engines. Each member has its own threads. While a member waits (a trainer for a batch, an engine for calls), the
// others divide its threads among themselves, as long as nothing else runs on those cores.
//
//   trainer (2 threads)   ██ step ██............██ step ██     . = its threads are lent
//   engine  (2 threads)   ▒▒▒▒▒▒▒▒▒▒████ 4 ████▒▒▒▒▒▒▒▒▒▒▒
//
// A borrower asks again every kLook, and borrowed threads stay until the loop that uses them ends. Only loops on a Crew
// use borrowed threads (kernels/torch/threads.h). Torch's own operators always use the member's own threads, because
// some of them split a sum according to the number of threads. Therefore, no result depends on what is lent.
//
// The members share a ComputeTable in memory, which several processes may map. A member that was killed counts as
// computing for at most kLease.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace ingot::kernels {

// All zero = no member computes. An entry is written only by its member. Times are on the monotonic clock, which all
// processes of a machine share.
struct ComputeTable {
  static constexpr int kEntries = 64;
  struct Entry {
    alignas(64) std::atomic<int64_t> computes_until_ns{0};  // in the past = the member waits
    std::atomic<int32_t> threads{0};                        // its own threads
    std::atomic<int64_t> borrowed_ns{0};                    // time computed on borrowed threads, summed over them
  };
  Entry entries[kEntries];
};
static_assert(std::atomic<int64_t>::is_always_lock_free, "processes share a ComputeTable");

// Returns how many threads of waiting members the entry `own`, which computes, may use at `now_ns`: its part of the
// machine's `total` threads that no computing member has as its own.
int LendableThreads(const ComputeTable& table, int own, int total, int64_t now_ns);

// Returns the number of cores on which nothing runs at this moment, including those of `ours` threads that would do the
// work (from /proc/loadavg; a container may see the whole machine's). Returns a large number if it is unknown.
int IdleCores(int ours);

class ComputeMember {
 public:
  static constexpr std::chrono::milliseconds kLook{1}, kLease{1000};

  // `place` is the member's entry in `table`, `threads` its own threads, and `total` those of all members on the
  // machine. `idle_cores` is IdleCores, except in tests. REQUIRES: 0 <= place < ComputeTable::kEntries, and no other
  // member has the entry.
  ComputeMember(std::shared_ptr<ComputeTable> table, int place, int threads, int total,
                std::function<int(int ours)> idle_cores = IdleCores);
  ~ComputeMember();
  ComputeMember(const ComputeMember&) = delete;
  ComputeMember& operator=(const ComputeMember&) = delete;

  int threads() const { return threads_; }
  const ComputeTable& table() const { return *table_; }

  // The member computes from Begin to End, and lends its threads at other times. Called on one thread, as is Borrow.
  void Begin();
  void End();

  // Returns how many threads the next loop may use besides the member's own. `awake` is the number of the loop's other
  // threads that are not asleep.
  int Borrow(int awake);
  // Adds to the entry's borrowed_ns. Thread safe.
  void CountBorrowed(std::chrono::nanoseconds time);

 private:
  ComputeTable::Entry& entry() { return table_->entries[place_]; }

  const std::shared_ptr<ComputeTable> table_;
  const int place_, threads_, total_;
  const std::function<int(int)> idle_cores_;
  int64_t look_at_ns_ = 0;  // when Borrow looks again
  int borrowed_ = 0;
};

}  // namespace ingot::kernels
