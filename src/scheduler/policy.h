// The windowed FIFO. It decides when a group may be admitted and which finished groups form the next batch.
//
//   admission order ->   0  1  2  3   4  5  6  7  8   9 10 11
//                        T  T  x  T   o  T  o  x  o   F  o  o          W = 5
//                                     ^head           ^head + W
//                                    [--- window ---)
//
//   o  open: admitted, not ended            F  finished, outside the window: waits until the window reaches it
//   T  taken: waits for its batch, or       x  closed: dropped (equal rewards) or failed
//      is in one                            T and x are terminal
//
// A finished group in the window is taken immediately. The head is the oldest group that is not terminal. A slow group
// delays only groups W or more places after it. Taken groups wait, oldest first, until P of them form a batch.
//
// Slots. There are B = (S+1)P slots, which limit the number of groups that are admitted and not released. A group
// releases its slot when it is closed, or when the version made from its batch is live.
//
// Six transitions change the state, one for each kind of event in a run:
//
//   event            transition        journaled    precondition
//   journal begun    BeginAt           yes          no earlier transition
//   group admitted   AdmitGroup        yes          its id is next_group()
//   group rewarded   FinishGroup       yes          it is open
//   group closed     CloseGroup        yes          it is open
//   batch taken      TakeBatch         yes          its step is next_step(); its groups ascend, each finished or taken,
//                                                   none in a batch
//   version live     SetLiveVersion    yes          0 <= version <= next_step()
//
// Transitions work the same live and in a replay of the journal. A transition whose precondition fails returns an error
// and changes nothing. Preconditions do not recheck CanAdmit and ReadyBatch: a live scheduler journals their decisions
// before it applies them, and replayed decisions may have been made with different options.
//
// The set of taken groups depends only on the set of groups that finished or closed, not on their order: taking one
// group never prevents taking another.
//
// Invariants, with version v live and P groups in every batch:
//   1. Every group in [0, head) is terminal; group `head` is not (or head == next_group()).
//   2. A finished group is taken only while it is in [head, head + W).
//   3. A group is in at most one batch. Batches are numbered 0, 1, 2, ... without gaps. Batch s produces version s + 1.
//   4. open + finished + taken + groups of batches >= v <= B, unless a replay or a lower live version raised the sum
//      above B. In that case, nothing is admitted until the sum is below B.
//   5. A group admitted while v was live is used in a step s with
//
//          s - v <= S + ceil((W - 1) / P).
//
//      At most B - 1 groups that held slots when it was admitted precede it, as do at most W - 1 younger groups. All
//      are in batches >= v, so s <= v + floor((B + W - 2) / P). With S = 0, s = v: all P slots belong to batch s until
//      version s + 1 is live.
//
// Pure: no locks, clocks, or I/O. Equal call sequences give equal states. Not thread safe. Amortized O(log n) per group
// in the number of groups held.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::scheduler {

// Specifies how far the window extends past the head.
enum class WindowOrder {
  kStrict,    // W = 1: batches follow admission order; the slowest group delays all groups after it
  kWindowed,  // W is set by window_fraction
  kGreedy     // no window: any finished group may be used. Fast groups go first, and invariant 5 does not hold.
};

struct WindowOptions {
  int64_t groups_per_step = 1;   // P >= 1
  int64_t max_staleness = 1;     // S >= 0, in versions; 0 = on-policy: each step waits for groups from its own version
  double window_fraction = 0.3;  // in (0, 1]; 1 = a group never waits for groups less than B places before it
  WindowOrder order = WindowOrder::kWindowed;

  static constexpr int64_t kNoWindow = int64_t{1} << 40;  // W in greedy order: exceeds the number of groups in any run
  int64_t Budget() const;                                 // B = (S+1)P
  int64_t Window() const;  // W: 1, max(1, floor(window_fraction * B)) or kNoWindow, depending on `order`
  absl::Status Validate() const;
};

// Declares the keys of a window's fields, with their meanings and bounds.
void BindWindow(base::Schema& schema, int64_t* groups_per_step, int64_t* max_staleness, double* window_fraction,
                WindowOrder* order);
void Bind(base::Schema& schema, WindowOptions& options);

class WindowedFifo {
 public:
  // REQUIRES: options.Validate() is OK.
  explicit WindowedFifo(const WindowOptions& options);

  // ---- Decisions, which do not change the state.

  // Returns whether a slot is free, so that group next_group() may be admitted.
  bool CanAdmit() const { return admitted_unreleased() < budget_; }
  // Returns the groups for batch next_step(): the P oldest taken groups, ascending, or nullopt if fewer than P are
  // taken.
  std::optional<std::vector<int64_t>> ReadyBatch() const;

  // ---- Transitions: the run's events, live or replayed. The table above lists their preconditions.

  // Makes the run continue at this step and group. Batches below `step` hold no slots. Returns FAILED_PRECONDITION if
  // the run has begun, and OUT_OF_RANGE for a negative number.
  absl::Status BeginAt(int64_t step, int64_t group);
  // Opens the group, which then holds a slot. Returns FAILED_PRECONDITION if another id is next.
  absl::Status AdmitGroup(int64_t group);
  // Finishes a group that has its reward and no unfinished samples. The group is taken now or when the window reaches
  // it. Returns NOT_FOUND if it was never admitted, and FAILED_PRECONDITION if it is not open.
  absl::Status FinishGroup(int64_t group);
  // Closes a dropped or failed group, which releases its slot. Returns the same errors as FinishGroup.
  absl::Status CloseGroup(int64_t group);
  // Forms batch `step` from the groups. Returns FAILED_PRECONDITION if another step is next, if the groups do not
  // ascend, or if one of them was never admitted, is open or closed, or is already in a batch.
  absl::Status TakeBatch(int64_t step, std::span<const int64_t> groups);
  // Called when every engine has loaded `version`. Groups in earlier batches release their slots. A version below
  // live_version() means that the run went back: batch `version` and later batches hold their slots again. Returns
  // OUT_OF_RANGE if `version` is negative or the batch that produces it does not exist yet.
  absl::Status SetLiveVersion(int64_t version);

  int64_t budget() const { return budget_; }
  int64_t window() const { return window_; }
  int64_t groups_per_step() const { return groups_per_step_; }
  int64_t head() const { return head_; }
  int64_t next_group() const { return head_ + static_cast<int64_t>(states_.size()); }
  // The first step that may have a batch in this journal. 0 = the journal covers the entire run.
  int64_t first_step() const { return first_step_; }
  int64_t next_step() const { return static_cast<int64_t>(batch_sizes_.size()); }
  int64_t live_version() const { return live_version_; }
  int64_t open() const { return open_; }
  int64_t finished_outside_window() const { return outside_; }
  // Groups that are taken but not in a batch.
  int64_t pending() const { return static_cast<int64_t>(pending_.size()); }
  // Groups that are admitted but neither closed nor in a batch.
  int64_t unbatched() const { return open_ + outside_ + pending(); }
  // Groups that hold a slot.
  int64_t admitted_unreleased() const { return unbatched() + unreleased_batched_; }

  // Returns true if all state that affects later decisions is equal.
  friend bool operator==(const WindowedFifo&, const WindowedFifo&) = default;

 private:
  enum class State : uint8_t { kOpen, kFinished, kTerminal };

  State& at(int64_t group) { return states_[static_cast<size_t>(group - head_)]; }
  absl::Status CheckOpen(int64_t group, const char* transition) const;
  absl::Status CheckBatch(int64_t step, std::span<const int64_t> groups) const;
  // Moves the head past terminal groups, and takes the finished groups that the window reaches.
  void Slide();

  int64_t budget_;
  int64_t window_;
  int64_t groups_per_step_;

  std::deque<State> states_;  // for groups [head_, next_group())
  int64_t head_ = 0;
  int64_t scanned_ = 0;  // finished groups below this id have been taken; = max(head, min(head + W, next)) after Slide
  std::set<int64_t> pending_;  // taken, not in a batch
  int64_t first_step_ = 0;
  std::vector<int32_t> batch_sizes_;  // by step; 0 below first_step_
  int64_t live_version_ = 0;
  int64_t open_ = 0;
  int64_t outside_ = 0;             // finished, not taken
  int64_t unreleased_batched_ = 0;  // groups in batches >= live_version_
};

}  // namespace ingot::scheduler
