// Chooses which finished groups are trained next, and when a new group may be admitted: the windowed FIFO.
//
//   admission order ->   0  1  2  3   4  5  6  7  8   9 10 11
//                        T  T  x  T   o  T  o  x  o   F  o  o          W = 5
//                                     ^head           ^head + W
//                                    [--- window ---)
//
//   o  open: admitted, not finished         F  finished, outside the window: waits until the window reaches it
//   T  taken into a batch (pending or       x  dropped (zero variance) or failed
//      batched)                             T and x are terminal
//
// A finished group inside the window is taken at once; the head is the oldest group that is not terminal, so that one
// slow group holds back at most what lies W or more behind it. Taken groups wait, oldest first, until P of them make a
// batch. Which groups are taken depends only on which have finished or closed, not on the order in which they did:
// taking one never keeps another from being taken. That is why what finished need not be journalled.
//
// Slots. B = (S+1)P slots bound the groups that are admitted and not released. A group's slot is released when the
// group is dropped or fails, or when the version that its batch made is live.
//
// Invariants, with version v live and P groups in every batch:
//   1. Every group in [0, head) is terminal; the one at head is not (or head == next).
//   2. A group is taken only while it lies in [head, head + W).
//   3. A group is in at most one batch; batches are numbered 0, 1, 2, ... without gaps; batch s makes version s + 1.
//   4. open + finished + pending + groups of batches >= v <= B, unless Restore... or Rewind brought it above: then
//   nothing
//      is admitted until it is below.
//   5. A group admitted while v was live is trained in a step s with s - v <= S + ceil((W-1)/P). For before it go at
//      most B - 1 groups that held slots when it was admitted and W - 1 younger ones that were taken before it, all in
//      batches >= v; so s <= v + floor((B + W - 2) / P). With S = 0, s = v: all P slots
//      belong to batch s until version s + 1 is live.
//
// Pure and single-threaded: no locks, clocks or I/O; the same calls give the same state. Amortised O(log n) per group
// in the number of groups held. Never aborts: an illegal transition is a status and changes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/status.h"

namespace ingot::scheduler {

struct WindowOptions {
  int64_t groups_per_step = 1;   // P >= 1
  int64_t max_staleness = 1;     // S >= 0, in versions; 0 is on-policy: each step waits for groups of its own version
  double window_fraction = 0.3;  // in (0, 1]; 1: any finished group may be taken

  int64_t Budget() const;  // B = (S+1)P
  int64_t Window() const;  // W = max(1, floor(window_fraction * B))
  absl::Status Validate() const;
};

class WindowedFifo {
 public:
  // REQUIRES: options.Validate() is OK.
  explicit WindowedFifo(const WindowOptions& options);

  // True if a slot is free.
  bool CanAdmit() const { return admitted_unreleased() < budget_; }
  // The new group's id, its place in admission order. RESOURCE_EXHAUSTED if no slot is free.
  absl::StatusOr<int64_t> Admit();

  // Every sample of an open group is done. With `zero_variance` the group is dropped and its slot released; otherwise
  // it is taken as soon as the window covers it.
  absl::Status Finish(int64_t group, bool zero_variance);
  // An open group failed, or is dropped: terminal, its slot released.
  absl::Status Fail(int64_t group);

  // The next batch if it is full: the P oldest taken groups, by id. TakeBatch makes them batch next_step(); between
  // the two the caller writes its journal.
  std::optional<std::vector<int64_t>> ReadyBatch() const;
  absl::StatusOr<int64_t> TakeBatch(std::span<const int64_t> groups);

  // `version` is live on every engine: groups of batches below it release their slots. Versions that are live already
  // are ignored; OUT_OF_RANGE if no batch makes it yet.
  absl::Status OnVersionLive(int64_t version);
  // The trainer went back to `version` <= live_version(): batches >= version hold their slots again, until their
  // versions are live anew.
  absl::Status Rewind(int64_t version);

  // Replaying a journal. As Admit and TakeBatch, but trusting the journal instead of slots, window and batch size,
  // which other options may have decided; TakeBatch's groups may still be open here.
  absl::Status RestoreAdmitted(int64_t group);
  absl::Status RestoreBatch(int64_t step, std::span<const int64_t> groups);

  int64_t budget() const { return budget_; }
  int64_t window() const { return window_; }
  int64_t groups_per_step() const { return groups_per_step_; }
  int64_t head() const { return head_; }
  int64_t next_group() const { return head_ + static_cast<int64_t>(states_.size()); }
  int64_t next_step() const { return static_cast<int64_t>(batch_sizes_.size()); }
  int64_t live_version() const { return live_version_; }
  int64_t open() const { return open_; }
  int64_t finished_outside_window() const { return outside_; }
  int64_t pending() const { return static_cast<int64_t>(pending_.size()); }
  // Admitted and not in a batch: open, finished or pending.
  int64_t unbatched() const { return open_ + outside_ + pending(); }
  int64_t admitted_unreleased() const { return unbatched() + unreleased_batched_; }

  // Equal in all that decides what happens next.
  friend bool operator==(const WindowedFifo&, const WindowedFifo&) = default;

 private:
  enum class State : uint8_t { kOpen, kFinished, kTerminal };

  State& at(int64_t group) { return states_[static_cast<size_t>(group - head_)]; }
  absl::Status CheckOpen(int64_t group, const char* what) const;
  // Restores invariants 1 and 2's "as soon as": moves head over terminal groups, takes what the window reaches.
  void Slide();

  int64_t budget_;
  int64_t window_;
  int64_t groups_per_step_;

  std::deque<State> states_;  // of groups [head_, next_group())
  int64_t head_ = 0;
  int64_t scanned_ = 0;  // finished groups below this id have been taken; = max(head, min(head + W, next)) after Slide
  std::set<int64_t> pending_;
  std::vector<int32_t> batch_sizes_;  // by step
  int64_t live_version_ = 0;
  int64_t open_ = 0;
  int64_t outside_ = 0;             // finished, not taken
  int64_t unreleased_batched_ = 0;  // groups of batches >= live_version_
};

}  // namespace ingot::scheduler
