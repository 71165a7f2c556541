// The windowed FIFO: it decides when a group may be admitted and which finished groups form the next batch.
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
// The window takes a finished group at once. The head is the oldest group that is not terminal: one slow group holds
// back only groups W or more places after it. Taken groups wait, oldest first, until P of them form a batch.
//
// Slots. B = (S+1)P slots bound the groups that are admitted and not released. A group releases its slot when it is
// closed, or when the version that its batch made is live.
//
// State changes by six transitions, one for each event of a run:
//
//   event            transition        journalled   precondition
//   journal begun    BeginAt           yes          no other transition came before
//   group admitted   AdmitGroup        yes          its id is next_group()
//   group rewarded   FinishGroup       yes          it is open
//   group closed     CloseGroup        yes          it is open
//   batch taken      TakeBatch         yes          its step is next_step(); its groups ascend, each finished or taken,
//                                                   none in a batch
//   version live     SetLiveVersion    yes          0 <= version <= next_step()
//
// Each transition is the same live and in a replay of the journal. A transition whose precondition fails returns an
// error and changes nothing. Preconditions do not repeat the decisions CanAdmit and ReadyBatch: a live scheduler asks
// for the decision, journals it and then applies it. A replay may differ, since other options may have decided.
//
// Which groups are taken depends only on the set of groups that finished or closed, not on their order: taking one
// group never keeps another from being taken.
//
// Invariants, with version v live and P groups in every batch:
//   1. Every group in [0, head) is terminal; group `head` is not (or head == next_group()).
//   2. A group that finishes is taken only while it lies in [head, head + W).
//   3. A group is in at most one batch; batches are numbered 0, 1, 2, ... without gaps; batch s makes version s + 1.
//   4. open + finished + taken + groups of batches >= v <= B, unless a replay or a lower live version brought the sum
//      above B: then nothing is admitted until it is below.
//   5. A group admitted while v was live is trained in a step s with
//
//          s - v <= S + ceil((W - 1) / P).
//
//      Before it go at most B - 1 groups that held slots when it was admitted, and W - 1 younger ones that were taken
//      before it. All are in batches >= v, so s <= v + floor((B + W - 2) / P). With S = 0, s = v: all P slots belong
//      to batch s until version s + 1 is live.
//
// Pure: no locks, clocks or I/O; equal calls give equal state. Not thread safe. Amortised O(log n) per group in the
// number of groups held.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/status.h"

namespace ingot::scheduler {

// How far past the head the window reaches.
enum class WindowOrder {
  kStrict,    // W = 1: batches are the groups in admission order; the slowest group holds back all groups after it
  kWindowed,  // W by window_fraction
  kGreedy     // no window: any finished group may be taken. Quick groups come first, and invariant 5 does not hold
};

struct WindowOptions {
  int64_t groups_per_step = 1;   // P >= 1
  int64_t max_staleness = 1;     // S >= 0, in versions; 0 = on-policy: each step waits for groups of its own version
  double window_fraction = 0.3;  // in (0, 1]; 1 = a group waits for no group less than B places before it
  WindowOrder order = WindowOrder::kWindowed;

  static constexpr int64_t kNoWindow = int64_t{1} << 40;  // W of greedy order: more groups than a run has
  int64_t Budget() const;                                 // B = (S+1)P
  int64_t Window() const;  // W: 1, max(1, floor(window_fraction * B)) or kNoWindow, as `order` says
  absl::Status Validate() const;
};

class WindowedFifo {
 public:
  // REQUIRES: options.Validate() is OK.
  explicit WindowedFifo(const WindowOptions& options);

  // ---- Decisions: queries of the state.

  // True if a slot is free: group next_group() may be admitted.
  bool CanAdmit() const { return admitted_unreleased() < budget_; }
  // The groups of batch next_step(): the P oldest taken groups, ascending. nullopt = fewer than P are taken.
  std::optional<std::vector<int64_t>> ReadyBatch() const;

  // ---- Transitions: events of the run, live or replayed. The table above has their preconditions.

  // The run continues at this step and group: batches below `step` hold no slot. FAILED_PRECONDITION: the run has
  // begun; OUT_OF_RANGE: a negative number.
  absl::Status BeginAt(int64_t step, int64_t group);
  // The group is open and holds a slot. FAILED_PRECONDITION: another id is next.
  absl::Status AdmitGroup(int64_t group);
  // Every sample of the group is done and the group has its reward: the window takes it now, or once the window reaches
  // it. NOT_FOUND: never admitted; FAILED_PRECONDITION: not open.
  absl::Status FinishGroup(int64_t group);
  // The group is dropped or failed: it is terminal and releases its slot. Errors as of FinishGroup.
  absl::Status CloseGroup(int64_t group);
  // The groups form batch `step`. FAILED_PRECONDITION: another step is next; the groups do not ascend; or one of them
  // was never admitted, is open or closed, or is in a batch.
  absl::Status TakeBatch(int64_t step, std::span<const int64_t> groups);
  // Every engine has loaded `version`: the groups of batches below it release their slots. A version below
  // live_version() means that the run went back: batch `version` and later batches hold their slots again.
  // OUT_OF_RANGE: negative, or the batch that makes that version does not exist yet.
  absl::Status SetLiveVersion(int64_t version);

  int64_t budget() const { return budget_; }
  int64_t window() const { return window_; }
  int64_t groups_per_step() const { return groups_per_step_; }
  int64_t head() const { return head_; }
  int64_t next_group() const { return head_ + static_cast<int64_t>(states_.size()); }
  // The first step whose batch this journal may hold; 0 = of the whole run.
  int64_t first_step() const { return first_step_; }
  int64_t next_step() const { return static_cast<int64_t>(batch_sizes_.size()); }
  int64_t live_version() const { return live_version_; }
  int64_t open() const { return open_; }
  int64_t finished_outside_window() const { return outside_; }
  // Groups that are taken and in no batch.
  int64_t pending() const { return static_cast<int64_t>(pending_.size()); }
  // Groups that are admitted, not closed and in no batch.
  int64_t unbatched() const { return open_ + outside_ + pending(); }
  // Groups that hold a slot.
  int64_t admitted_unreleased() const { return unbatched() + unreleased_batched_; }

  // Equal in everything that affects later decisions.
  friend bool operator==(const WindowedFifo&, const WindowedFifo&) = default;

 private:
  enum class State : uint8_t { kOpen, kFinished, kTerminal };

  State& at(int64_t group) { return states_[static_cast<size_t>(group - head_)]; }
  absl::Status CheckOpen(int64_t group, const char* transition) const;
  absl::Status CheckBatch(int64_t step, std::span<const int64_t> groups) const;
  // Moves the head over terminal groups and takes the finished groups that the window reaches.
  void Slide();

  int64_t budget_;
  int64_t window_;
  int64_t groups_per_step_;

  std::deque<State> states_;  // of groups [head_, next_group())
  int64_t head_ = 0;
  int64_t scanned_ = 0;  // finished groups below this id have been taken; = max(head, min(head + W, next)) after Slide
  std::set<int64_t> pending_;  // taken, in no batch
  int64_t first_step_ = 0;
  std::vector<int32_t> batch_sizes_;  // by step; 0 below first_step_
  int64_t live_version_ = 0;
  int64_t open_ = 0;
  int64_t outside_ = 0;             // finished, not taken
  int64_t unreleased_batched_ = 0;  // groups of batches >= live_version_
};

}  // namespace ingot::scheduler
