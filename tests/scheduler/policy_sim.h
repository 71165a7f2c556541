// A run of the policy in a random world, held at every event against a naive model of its law. The model has plain maps
// and recomputes everything from scratch. The run crashes repeatedly: it continues with a policy that was replayed
// from its journal. replay_test.cc holds a whole scheduler against the same model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

// The law of policy.h, slowly.
class NaiveWindow {
 public:
  enum State { kOpen, kFinished, kTaken, kClosed };

  explicit NaiveWindow(const WindowOptions& options) : options_(options) {}

  void Admit(int64_t live) {
    states_.push_back(kOpen);
    admitted_at_.push_back(live);
    ASSERT_LE(Unreleased(), options_.Budget());
  }
  void Finish(int64_t group) { states_[group] = kFinished; }
  void Close(int64_t group) { states_[group] = kClosed; }

  // Takes one group after the other into a batch and checks each against the window of that moment.
  void TakeBatch(const std::vector<int64_t>& groups) {
    ASSERT_EQ(groups.size(), options_.groups_per_step);
    for (const int64_t group : groups) {
      ASSERT_EQ(states_[group], kFinished) << "group " << group;
      ASSERT_LT(group, Head() + options_.Window()) << "outside the window";
      states_[group] = kTaken;
      oldest_age_ = std::max(oldest_age_, steps_ - admitted_at_[group]);
    }
    batches_.push_back(groups);
    ++steps_;
  }
  void Live(int64_t version) { live_ = version; }

  int64_t Head() {
    while (head_ < std::ssize(states_) && (states_[head_] == kTaken || states_[head_] == kClosed)) ++head_;
    return head_;
  }
  int64_t Unreleased() const {
    int64_t count = (steps_ - live_) * options_.groups_per_step;
    for (int64_t g = head_; g < std::ssize(states_); ++g) count += states_[g] == kOpen || states_[g] == kFinished;
    return count;
  }
  // The finished groups that the window takes, one after the other, until it reaches no more.
  std::set<int64_t> Takeable() const {
    std::vector<State> states = states_;
    std::set<int64_t> takeable;
    for (bool found = true; found;) {
      found = false;
      int64_t head = head_;
      while (head < std::ssize(states) && states[head] >= kTaken) ++head;
      for (int64_t g = head; g < std::min<int64_t>(std::ssize(states), head + options_.Window()); ++g) {
        if (states[g] != kFinished) continue;
        states[g] = kTaken;
        takeable.insert(g);
        found = true;
      }
    }
    return takeable;
  }
  // The head once all of Takeable() are taken. The policy takes a group at once, the model only with its batch.
  int64_t HeadAfterTaking() {
    const std::set<int64_t> takeable = Takeable();
    int64_t head = Head();
    while (head < std::ssize(states_) && (takeable.contains(head) || terminal(head))) ++head;
    return head;
  }
  bool terminal(int64_t group) const { return states_[group] == kTaken || states_[group] == kClosed; }
  int64_t greatest_age() const { return oldest_age_; }
  const std::vector<std::vector<int64_t>>& batches() const { return batches_; }

 private:
  const WindowOptions options_;
  std::vector<State> states_;
  std::vector<int64_t> admitted_at_;
  std::vector<std::vector<int64_t>> batches_;
  int64_t head_ = 0;
  int64_t steps_ = 0;
  int64_t live_ = 0;
  int64_t oldest_age_ = 0;
};

// An event of a run that its journal holds.
struct JournalEvent {
  enum Kind { kAdmitted, kRewarded, kClosed, kBatch, kLive } kind;
  int64_t value = 0;
  std::vector<int64_t> groups;
};

class PolicySim {
 public:
  PolicySim(const WindowOptions& options, uint64_t seed)
      : options_(options), fifo_(options), naive_(options), seed_(seed) {}

  // Called periodically: compares the state with the naive model, replays the journal, and continues with the replay.
  void set_check_every(int64_t events) { check_every_ = events; }
  int64_t greatest_age() const { return naive_.greatest_age(); }
  int64_t age_bound() const {
    const int64_t p = options_.groups_per_step;
    return options_.max_staleness + (options_.Window() - 1 + p - 1) / p;
  }

  // Random events until `steps` batches are made. Fails (fatally) if the law is broken or nothing can move.
  void Run(int64_t steps) {
    // This seed's world: drops, failures, late weights, a few very slow groups, returns to older versions.
    const double drop = Draw() < 0.5 ? 0.0 : 0.3 * Draw();
    const double fail = Draw() < 0.5 ? 0.0 : 0.1 * Draw();
    const double lateness = Draw() < 0.3 ? 0.95 : Draw() * 0.5;
    const double old_first = Draw();  // how much the oldest are favoured; 0 = random order
    const double back = Draw() < 0.5 ? 0.0 : 0.05;
    for (int64_t events = 0; fifo_.next_step() < steps; ++events) {
      ASSERT_LT(events, 400 * steps * options_.groups_per_step + 100'000) << "the run does not move";
      const double kind = Draw();
      if (kind < 0.45) {
        ASSERT_NO_FATAL_FAILURE(AdmitAll(kind < 0.1));
      } else if (kind < 0.9) {
        ASSERT_NO_FATAL_FAILURE(EndOne(drop, fail, old_first));
      } else if (kind < 0.95) {
        ASSERT_NO_FATAL_FAILURE(Feed());
      } else if (Draw() < back) {
        MakeLive(static_cast<int64_t>(Draw() * static_cast<double>(live_)));
        went_back_ = true;
      } else if (Draw() > lateness && live_ < fifo_.next_step()) {
        MakeLive(live_ + 1 + static_cast<int64_t>(Draw() * (fifo_.next_step() - live_)));
      }
      if (events % check_every_ == 0) {
        ASSERT_NO_FATAL_FAILURE(Check());
      }
      if (!went_back_) {
        ASSERT_LE(fifo_.admitted_unreleased(), fifo_.budget());
      }
    }
    ASSERT_NO_FATAL_FAILURE(Check());
    // A group is in at most one batch.
    std::set<int64_t> seen;
    for (const auto& batch : naive_.batches()) {
      for (const int64_t group : batch) ASSERT_TRUE(seen.insert(group).second) << group;
    }
  }

 private:
  double Draw() { return base::UniformAt(seed_, draws_++); }

  void AdmitAll(bool one) {
    while (fifo_.CanAdmit()) {
      const int64_t group = fifo_.next_group();
      ASSERT_TRUE(fifo_.AdmitGroup(group).ok());
      ASSERT_NO_FATAL_FAILURE(naive_.Admit(live_));
      open_.push_back(group);
      journal_.push_back({JournalEvent::kAdmitted, group, {}});
      if (one) return;
    }
  }

  void EndOne(double drop, double fail, double old_first) {
    if (open_.empty()) return;
    const double where = Draw() < old_first ? Draw() * 0.1 : Draw();
    const auto it = open_.begin() + static_cast<int64_t>(where * static_cast<double>(open_.size()));
    const int64_t group = *it;
    open_.erase(it);
    if (Draw() >= drop + fail) {
      ASSERT_TRUE(fifo_.FinishGroup(group).ok());
      naive_.Finish(group);
      journal_.push_back({JournalEvent::kRewarded, group, {}});
      return;
    }
    ASSERT_TRUE(fifo_.CloseGroup(group).ok());
    naive_.Close(group);
    journal_.push_back({JournalEvent::kClosed, group, {}});
  }

  // The trainer takes every batch that is ready: it is as greedy as the slots allow.
  void Feed() {
    const auto batch = fifo_.ReadyBatch();
    if (!batch.has_value()) return;
    ASSERT_TRUE(fifo_.TakeBatch(fifo_.next_step(), *batch).ok());
    ASSERT_NO_FATAL_FAILURE(naive_.TakeBatch(*batch));
    journal_.push_back({JournalEvent::kBatch, fifo_.next_step() - 1, *batch});
  }

  void MakeLive(int64_t version) {
    live_ = std::min(version, fifo_.next_step());
    ASSERT_TRUE(fifo_.SetLiveVersion(live_).ok());
    naive_.Live(live_);
    journal_.push_back({JournalEvent::kLive, live_, {}});
  }

  void Check() {
    ASSERT_EQ(fifo_.head(), naive_.HeadAfterTaking());
    ASSERT_EQ(fifo_.admitted_unreleased(), naive_.Unreleased());
    ASSERT_EQ(fifo_.pending(), std::ssize(naive_.Takeable()));
    WindowedFifo replayed(options_);
    for (const JournalEvent& event : journal_) {
      switch (event.kind) {
        case JournalEvent::kAdmitted:
          ASSERT_TRUE(replayed.AdmitGroup(event.value).ok());
          break;
        case JournalEvent::kRewarded:
          ASSERT_TRUE(replayed.FinishGroup(event.value).ok());
          break;
        case JournalEvent::kClosed:
          ASSERT_TRUE(replayed.CloseGroup(event.value).ok());
          break;
        case JournalEvent::kBatch:
          ASSERT_TRUE(replayed.TakeBatch(event.value, event.groups).ok());
          break;
        case JournalEvent::kLive:
          ASSERT_TRUE(replayed.SetLiveVersion(event.value).ok());
      }
    }
    ASSERT_TRUE(replayed == fifo_) << "the replayed state differs";
    fifo_ = std::move(replayed);
  }

  const WindowOptions options_;
  WindowedFifo fifo_;
  NaiveWindow naive_;
  const uint64_t seed_;
  uint64_t draws_ = 0;
  int64_t check_every_ = 1;
  int64_t live_ = 0;
  bool went_back_ = false;
  std::vector<int64_t> open_;  // oldest first
  std::vector<JournalEvent> journal_;
};

}  // namespace ingot::scheduler
