// Crashes: a run of the scheduler in a random world is cut at each change of the pool, recovered and run to its end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

// Thousands of recoveries would otherwise each log a line.
const bool kQuiet = (spdlog::set_level(spdlog::level::err), true);

using Place = std::tuple<int64_t, int32_t, int32_t>;  // group, sample, attempt

Place PlaceOf(const v1::EpisodeRef& ref) { return {ref.group_id(), ref.sample_index(), ref.attempt()}; }

// An observer's notes, which outlive crashes as the pool does.
struct Notebook {
  std::map<int64_t, std::vector<int64_t>> batches;  // by step, as first answered
  std::map<int64_t, std::string> batch_stats;       // rewards of the step, as first answered
  std::map<Place, int64_t> engine_version;          // live when the attempt was handed out
};

SchedulerOptions MakeOptions() {
  return {.group_size = 2,
          .groups_per_step = 2,
          .max_staleness = 1,
          .window_fraction = 0.75,  // B = 4, W = 3
          .total_steps = 6,
          .group_deadline_seconds = 50,
          .max_attempts = 2};
}

// The same with groups of a trunk and two leaves.
SchedulerOptions BranchingOptions() {
  SchedulerOptions options = MakeOptions();
  options.branching = {.at = 1, .width = 2};
  options.max_attempts = 4;
  return options;
}

std::string Rewards(const v1::FeedStats& stats) {
  return std::to_string(stats.reward_mean()) + " over " + std::to_string(stats.reward_episodes()) + ", dropped " +
         std::to_string(stats.dropped_fraction());
}

int64_t LastCheckpoint(const PoolState& state) {
  int64_t step = 0;
  for (const auto& record : state.journal) {
    if (record.has_checkpoint()) step = record.checkpoint().step();
  }
  return step;
}

// One life of all processes: agents, trainer and engines around a scheduler, until the run ends.
class World {
 public:
  World(FakePool& pool, Notebook& notebook, uint64_t seed, std::optional<int64_t> resume_step,
        const SchedulerOptions& options = MakeOptions())
      : options_(options), pool_(pool), notebook_(notebook), seed_(seed) {
    scheduler_ = MustRecover(options_, pool, clock_, resume_step);
    if (scheduler_ == nullptr) return;
    version_ = resume_step.value_or(0);
    if (resume_step.has_value()) {
      EXPECT_TRUE(scheduler_->MarkVersionLive(version_).ok());
      live_ = version_;
    } else {  // the others lived on
      live_ = LastLive();
      version_ = std::max(live_, LastCheckpoint(pool.state()));
      TakeOverRunning();
    }
  }

  // Compares the live scheduler after every event with one recovered from a copy of the pool, its next batch included.
  void CompareWithRecovered() { compare_ = true; }

  void RunToTheEnd() {
    for (int event = 0; version_ < options_.total_steps; ++event) {
      ASSERT_LT(event, 20'000) << "the run does not move: " << scheduler_->NextBatch(Batch(version_)).status();
      const double kind = Draw();
      if (kind < 0.4) {
        ASSERT_NO_FATAL_FAILURE(AdmitOne());
      } else if (kind < 0.75) {
        EndOne();
      } else if (kind < 0.9) {
        ASSERT_NO_FATAL_FAILURE(TrainOne());
      } else if (kind < 0.98) {
        if (live_ < version_) {
          ASSERT_TRUE(scheduler_->MarkVersionLive(++live_).ok());
        }
      } else {
        clock_.Advance(std::chrono::seconds(10));
        ASSERT_TRUE(scheduler_->Tick().ok());
      }
      if (compare_) {
        ASSERT_NO_FATAL_FAILURE(Compare());
      }
    }
  }

 private:
  void Compare() {
    FakePool copy(pool_.state());
    copy.set_page(3);
    const auto recovered = MustRecover(options_, copy, clock_, std::nullopt);
    ASSERT_EQ(State(*recovered), State(*scheduler_));
    const auto batch = recovered->NextBatch(Batch(version_));
    recovered_batch_ = batch.ok() ? GroupsOf(*batch) : std::vector<int64_t>();
  }
  static std::string State(Scheduler& scheduler) {
    v1::SchedulerStatusResponse status = *scheduler.Status();
    status.mutable_stats()->clear_running_episodes();  // lost with the process that ran them
    status.mutable_stats()->clear_finished_episodes();
    return status.ShortDebugString();
  }

  double Draw() { return base::UniformAt(seed_, draws_++); }

  // The gateway goes on with the open episodes. Half of their agents died meanwhile, and are reported as lost.
  void TakeOverRunning() {
    for (const auto& [key, episode] : pool_.state().episodes) {
      if (episode.state() != v1::EPISODE_OPEN) continue;
      v1::Ticket ticket;
      *ticket.mutable_ref() = episode.ref();
      ticket.set_purpose(episode.purpose());
      ticket.set_trunk_id(episode.fork().episode_id());
      if (episode.ref().sample_index() >= options_.group_size) ticket.set_fork_at(options_.branching.at);
      if (Draw() < 0.5) {
        running_.push_back(ticket);
        continue;
      }
      pool_.End(EndOf(ticket, v1::EPISODE_FENCED));
      EXPECT_TRUE(scheduler_->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FENCED)).ok());
    }
  }

  int64_t LastLive() {
    int64_t live = 0;
    for (const auto& record : pool_.state().journal) {
      if (record.has_live()) live = record.live().version();
    }
    return live;
  }

  void AdmitOne() {
    v1::AdmitRequest request;
    if (branches()) {
      request.set_runner("runner");
      request.set_scaffold("solver");
    }
    const auto ticket = scheduler_->Admit(request);
    if (!ticket.ok()) {
      ASSERT_TRUE(absl::IsResourceExhausted(ticket.status()) || absl::IsFailedPrecondition(ticket.status()))
          << ticket.status();
      return;
    }
    ASSERT_FALSE(notebook_.engine_version.contains(PlaceOf(ticket->ref())) &&
                 pool_.state().episodes.contains(std::tuple_cat(std::tuple(0), PlaceOf(ticket->ref()))))
        << "an attempt was handed out twice";
    ASSERT_TRUE(std::none_of(running_.begin(), running_.end(), [&](const v1::Ticket& other) {
      // A leaf whose trunk was tried again may still run; its end counts for nothing.
      const bool withdrawn = !other.trunk_id().empty() && other.ref().attempt() < ticket->ref().attempt();
      return other.ref().group_id() == ticket->ref().group_id() &&
             other.ref().sample_index() == ticket->ref().sample_index() && !withdrawn;
    })) << "somebody runs this sample";
    notebook_.engine_version[PlaceOf(ticket->ref())] = live_;
    pool_.Open(*ticket);
    running_.push_back(*ticket);
  }

  void EndOne() {
    if (running_.empty()) return;
    std::swap(running_[static_cast<size_t>(Draw() * static_cast<double>(running_.size()))], running_.back());
    const v1::Ticket ticket = running_.back();
    running_.pop_back();
    const double outcome = Draw();
    auto end = outcome < 0.15 ? EndOf(ticket, v1::EPISODE_FAILED)
                              : EndOf(ticket, v1::EPISODE_FINISHED, outcome < 0.5 ? 0.25 : 1);
    if (ticket.fork_at() > 0 && outcome >= 0.4) end = EndOf(ticket, v1::EPISODE_FORKED);
    if (!ticket.trunk_id().empty() && outcome < 0.15) {
      end = EndOf(ticket, v1::EPISODE_INFRASTRUCTURE_FAILED);
      if (outcome < 0.1) end.set_cause("snapshot");
    }
    if (branches()) {
      end.set_episode_id(FakePool::IdOf(ticket));
      end.set_runner("runner");
      end.set_scaffold("solver");
    }
    const PoolState state = pool_.state();
    const v1::Episode* const newest = Newest(state, ticket.ref().group_id(), ticket.ref().sample_index());
    // The pool refuses the end of an attempt that a newer one fenced.
    if (newest == nullptr || newest->ref().attempt() == ticket.ref().attempt()) pool_.End(end);
    EXPECT_TRUE(scheduler_->ReportEpisodeEnd(end).ok());
  }

  void TrainOne() {
    const auto response = scheduler_->NextBatch(Batch(version_));
    if (!response.ok()) {
      ASSERT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
      return;
    }
    if (compare_) {
      ASSERT_EQ(GroupsOf(*response), recovered_batch_);
    }
    ASSERT_NO_FATAL_FAILURE(CheckBatch(*response));
    ++version_;
    if (version_ % 2 == 0) {
      v1::CheckpointRequest checkpoint;
      checkpoint.set_step(version_);
      ASSERT_TRUE(scheduler_->MarkCheckpoint(checkpoint).ok());
    }
  }

  void CheckBatch(const v1::NextBatchResponse& response) {
    const std::vector<int64_t> groups = GroupsOf(response);
    ASSERT_EQ(groups.size(), 2u);
    const auto [before, first_time] = notebook_.batches.emplace(version_, groups);
    ASSERT_EQ(before->second, groups) << "batch " << version_ << " was replayed differently";
    ASSERT_EQ(notebook_.batch_stats.emplace(version_, Rewards(response.stats())).first->second,
              Rewards(response.stats()));
    const int64_t bound = options_.max_staleness + (3 - 1 + 2 - 1) / 2;
    const PoolState state = pool_.state();
    for (const int64_t group : groups) {
      std::set<double> rewards;
      for (int32_t sample = 0; sample < (branches() ? 3 : 2); ++sample) {
        const v1::Episode* const episode = Newest(state, group, sample);
        if (branches()) {
          if (sample == 2) continue;
          ASSERT_NO_FATAL_FAILURE(CheckLeaf(state, group, sample));
          if (episode == nullptr) continue;  // its trunk stands for it
        }
        ASSERT_NE(episode, nullptr);
        ASSERT_EQ(episode->state(), v1::EPISODE_FINISHED) << "group " << group << " is not finished";
        rewards.insert(episode->reward());
        ASSERT_LE(version_ - episode->admitted_version(), bound);
        // The bound holds for the version that sampled the tokens, too.
        ASSERT_LE(version_ - notebook_.engine_version.at(PlaceOf(episode->ref())), bound) << "group " << group;
      }
      if (branches() && Newest(state, group, 2)->state() == v1::EPISODE_FINISHED) {
        rewards.insert(Newest(state, group, 2)->reward());
      }
      ASSERT_EQ(rewards.size(), 2u) << "group " << group << " has no variance";
    }
  }

  // The largest attempt of a sample; null = there is none.
  static const v1::Episode* Newest(const PoolState& state, int64_t group, int32_t sample) {
    auto it = state.episodes.lower_bound({v1::PURPOSE_TRAIN, group, sample + 1, 0});
    if (it == state.episodes.begin()) return nullptr;
    const v1::Episode& episode = std::prev(it)->second;
    return episode.ref().group_id() == group && episode.ref().sample_index() == sample ? &episode : nullptr;
  }

  // A leaf of a trained group left the trunk's newest attempt, or none if that one finished without a fork.
  static void CheckLeaf(const PoolState& state, int64_t group, int32_t leaf) {
    const v1::Episode* const trunk = Newest(state, group, 2);
    const v1::Episode* const episode = Newest(state, group, leaf);
    ASSERT_NE(trunk, nullptr);
    if (trunk->state() == v1::EPISODE_FORKED) {
      ASSERT_NE(episode, nullptr);
      ASSERT_EQ(episode->fork().episode_id(), trunk->episode_id());
      return;
    }
    ASSERT_EQ(trunk->state(), v1::EPISODE_FINISHED);
    if (episode == nullptr) {
      ASSERT_EQ(leaf, 0) << "a trunk stands for its first leaf alone";
    } else {
      ASSERT_FALSE(episode->has_fork());
    }
  }

  bool branches() const { return options_.branching.width > 0; }

  const SchedulerOptions options_;
  FakePool& pool_;
  Notebook& notebook_;
  const uint64_t seed_;
  uint64_t draws_ = 0;
  base::ManualClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<v1::Ticket> running_;
  bool compare_ = false;
  std::vector<int64_t> recovered_batch_;
  int64_t version_ = 0;  // of the trainer
  int64_t live_ = 0;     // of the engines
};

void CheckJournalFrom(const PoolState& state, int64_t first_step, int64_t steps) {
  std::set<int64_t> consumed;
  int64_t next_step = first_step;
  for (const auto& record : state.journal) {
    if (record.has_closed()) {
      ASSERT_TRUE(consumed.insert(record.closed().group_id()).second) << record.ShortDebugString();
    }
    if (!record.has_batch()) continue;
    ASSERT_EQ(record.batch().step(), next_step++);
    for (const int64_t group : record.batch().group_ids()) {
      ASSERT_TRUE(consumed.insert(group).second) << "group " << group << " is consumed twice";
    }
  }
  ASSERT_EQ(next_step, steps);
}

void CheckJournal(const PoolState& state, int64_t steps) { CheckJournalFrom(state, 0, steps); }

struct Moment {
  PoolState state;
  Notebook notebook;
};

std::vector<Moment> RecordRun(uint64_t seed, const SchedulerOptions& options = MakeOptions()) {
  std::vector<Moment> moments;
  FakePool pool;
  Notebook notebook;
  World world(pool, notebook, seed, 0, options);
  pool.on_change = [&] { moments.push_back({pool.state(), notebook}); };
  world.RunToTheEnd();
  CheckJournal(pool.state(), MakeOptions().total_steps);
  return moments;
}

void CrashAtAnyMoment(uint64_t seeds, const SchedulerOptions& options) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const std::vector<Moment> moments = RecordRun(seed, options);
    ASSERT_GT(moments.size(), 50u);
    for (size_t i = 0; i < moments.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", crash after change " + std::to_string(i));
      FakePool pool(moments[i].state);
      pool.set_page(7);
      Notebook notebook = moments[i].notebook;
      // A journalled batch counts as answered: the crash may have lost the answer.
      for (const auto& record : moments[i].state.journal) {
        if (record.has_batch()) {
          notebook.batches.emplace(record.batch().step(), std::vector<int64_t>(record.batch().group_ids().begin(),
                                                                               record.batch().group_ids().end()));
        }
      }
      World world(pool, notebook, seed * 1000 + i, LastCheckpoint(moments[i].state), options);
      ASSERT_NO_FATAL_FAILURE(world.RunToTheEnd());
      ASSERT_NO_FATAL_FAILURE(CheckJournal(pool.state(), options.total_steps));
    }
  }
}

void CrashOfTheSchedulerAlone(const SchedulerOptions& options) {
  const std::vector<Moment> moments = RecordRun(11, options);
  for (size_t i = 0; i < moments.size(); ++i) {
    SCOPED_TRACE("crash after change " + std::to_string(i));
    FakePool pool(moments[i].state);
    Notebook notebook = moments[i].notebook;
    World world(pool, notebook, 5000 + i, std::nullopt, options);
    ASSERT_NO_FATAL_FAILURE(world.RunToTheEnd());
    ASSERT_NO_FATAL_FAILURE(CheckJournal(pool.state(), options.total_steps));
  }
}

TEST(RecoveryTest, ACrashAtAnyMomentResumesFromTheCheckpointWithTheSameBatches) { CrashAtAnyMoment(4, MakeOptions()); }

TEST(RecoveryTest, ACrashOfTheSchedulerAloneGoesOnWhereItWas) { CrashOfTheSchedulerAlone(MakeOptions()); }

// Forks are in the pool's episodes alone: a trunk's leaves go on, or begin anew, after a crash at any moment.
TEST(RecoveryTest, GroupsThatBranchSurviveACrashAtAnyMoment) {
  CrashAtAnyMoment(1, BranchingOptions());
  CrashOfTheSchedulerAlone(BranchingOptions());
}

TEST(RecoveryTest, ManyCrashesInARow) {
  for (uint64_t seed = 100; seed < 140; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Notebook notebook;
    PoolState state;
    for (int life = 0;; ++life) {
      ASSERT_LT(life, 50);
      FakePool pool(state);
      World world(pool, notebook, seed * 100 + static_cast<uint64_t>(life), LastCheckpoint(state));
      // Dies after a random number of changes; nobody sees later ones.
      int64_t left = 5 + static_cast<int64_t>(base::UniformAt(seed, static_cast<uint64_t>(life)) * (20 + 30 * life));
      Notebook survived;
      bool died = false;
      pool.on_change = [&] {
        if (--left == 0) {
          state = pool.state();
          survived = notebook;
          died = true;
        }
      };
      ASSERT_NO_FATAL_FAILURE(world.RunToTheEnd());
      if (!died) {
        ASSERT_NO_FATAL_FAILURE(CheckJournal(pool.state(), MakeOptions().total_steps));
        break;
      }
      notebook = survived;
    }
  }
}

// At every moment the recovered state equals the live one: head, slots, drops and the next batch.
TEST(RecoveryTest, TheRecoveredStateEqualsTheLiveOne) {
  for (uint64_t seed = 30; seed < 34; ++seed) {
    FakePool pool;
    Notebook notebook;
    World world(pool, notebook, seed, 0);
    world.CompareWithRecovered();
    ASSERT_NO_FATAL_FAILURE(world.RunToTheEnd());
  }
}

// After a resume from version 0, a group admitted under version 1 must not run on version 0: its tokens could be older
// than the bound when the group is trained.
TEST(RecoveryTest, AGroupOfAVersionThatIsMadeAgainWaitsForIt) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  options.window_fraction = 1;
  FakePool pool;
  const base::ManualClock clock;
  auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  for (int i = 0; i < 4; ++i) {  // groups 0 and 1: finished
    const auto ticket = scheduler->Admit({});
    pool.Open(*ticket);
    pool.End(EndOf(*ticket, v1::EPISODE_FINISHED, i % 2));
    ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(*ticket, v1::EPISODE_FINISHED, i % 2)).ok());
  }
  ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());
  ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
  const auto late = scheduler->Admit({});  // group 2, version 1, one sample running
  pool.Open(*late);

  scheduler = MustRecover(options, pool, clock, 0);
  EXPECT_EQ(scheduler->Status()->stats().admitted_unreleased(), 3);  // above B = 2: batch 0 holds its slot again
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  EXPECT_EQ(scheduler->Status()->stats().admitted_unreleased(), 3);
  EXPECT_EQ(scheduler->Admit({}).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());
  ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
  const auto again = scheduler->Admit({});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ref().group_id(), 2);
  EXPECT_EQ(again->ref().attempt(), 1);
}

// The trainer alone restarted: it publishes its checkpoint and asks for the batch behind it.
TEST(RecoveryTest, ATrainerThatRestartsAloneIsRecognisedByItsNextBatch) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  options.window_fraction = 1;
  FakePool pool;
  const base::ManualClock clock;
  auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  std::vector<std::vector<int64_t>> batches;
  for (int64_t step = 0; step < 3; ++step) {
    for (const double reward : {0.0, 1.0}) {
      const auto ticket = scheduler->Admit({});
      pool.Open(*ticket);
      pool.End(EndOf(*ticket, v1::EPISODE_FINISHED, reward));
      ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(*ticket, v1::EPISODE_FINISHED, reward)).ok());
    }
    batches.push_back(GroupsOf(*scheduler->NextBatch(Batch(step))));
    ASSERT_TRUE(scheduler->MarkVersionLive(step + 1).ok());
  }
  ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());  // published again; not yet known to be a return
  EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(1))), batches[1]);
  EXPECT_EQ(scheduler->Status()->stats().admitted_unreleased(), 2);
  ASSERT_TRUE(scheduler->MarkVersionLive(2).ok());
  EXPECT_EQ(scheduler->Status()->stats().admitted_unreleased(), 1);
  EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(2))), batches[2]);
  // A scheduler that restarts now gives the same answer.
  scheduler = MustRecover(options, pool, clock, std::nullopt);
  EXPECT_EQ(scheduler->Status()->stats().admitted_unreleased(), 1);
}

// An episode that runs while the trainer goes back continues on older weights, too old for a group of a later version.
// Only episodes of groups that were admitted under a version that is still live stay.
TEST(RecoveryTest, AnEpisodeOfAVersionThatIsMadeAgainIsTriedAgain) {
  for (const bool restarted : {false, true}) {
    SchedulerOptions options = MakeOptions();
    options.groups_per_step = 1;
    options.max_staleness = 2;
    options.window_fraction = 1;
    FakePool pool;
    const base::ManualClock clock;
    auto scheduler = MustRecover(options, pool, clock, 0);
    ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
    const auto admit = [&] {
      const auto ticket = scheduler->Admit({});
      EXPECT_TRUE(ticket.ok()) << ticket.status();
      pool.Open(*ticket);
      return *ticket;
    };
    const auto end = [&](const v1::Ticket& ticket, double reward) {
      pool.End(EndOf(ticket, v1::EPISODE_FINISHED, reward));
      ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(ticket, v1::EPISODE_FINISHED, reward)).ok());
    };
    for (const double reward : {0.0, 1.0}) end(admit(), reward);
    ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());
    const v1::Ticket stays[] = {admit(), admit()};  // group 1, version 0
    ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
    const v1::Ticket finished = admit(), running = admit();  // group 2, version 1
    end(finished, 0);
    EXPECT_EQ(scheduler->Status()->stats().running_episodes(), 3);
    ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());  // the trainer alone went back
    EXPECT_EQ(scheduler->Status()->stats().running_episodes(), 2);
    end(running, 1);  // too late
    for (int i = 0; i < 2; ++i) end(stays[i], i);
    if (restarted) scheduler = MustRecover(options, pool, clock, std::nullopt);
    EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(1))), std::vector<int64_t>{1});
    EXPECT_EQ(scheduler->Admit({}).status().code(), absl::StatusCode::kResourceExhausted);
    ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
    const v1::Ticket again = admit();
    EXPECT_EQ(again.ref().group_id(), 2);
    EXPECT_EQ(again.ref().sample_index(), running.ref().sample_index());
    EXPECT_EQ(again.ref().attempt(), 1);
    end(again, 1);
    ASSERT_TRUE(scheduler->MarkVersionLive(2).ok());
    EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(2))), std::vector<int64_t>{2});
  }
}

// While the trainer makes versions again, groups that were admitted under later ones wait, and their time stands still.
TEST(RecoveryTest, AGroupHasAllItsTimeOnceItsVersionIsMadeAgain) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  options.max_staleness = 2;
  options.window_fraction = 1;
  options.group_deadline_seconds = 100;
  FakePool pool;
  base::ManualClock clock;
  auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  const auto admit = [&] {
    const auto ticket = scheduler->Admit({});
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    return ticket.value_or(v1::Ticket());
  };
  const auto end = [&](const v1::Ticket& ticket, v1::EpisodeState state, double reward) {
    ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(ticket, state, reward)).ok());
  };
  for (const double reward : {0.0, 1.0}) end(admit(), v1::EPISODE_FINISHED, reward);
  ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());
  ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
  const v1::Ticket done[] = {admit(), admit(), admit(), admit()};  // groups 1 and 2
  end(done[0], v1::EPISODE_FINISHED, 0);
  end(done[2], v1::EPISODE_FINISHED, 0);
  clock.Advance(std::chrono::seconds(90));
  end(done[3], v1::EPISODE_FAILED, 0);               // waits; the other sample of group 1 runs, and will be fenced
  ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());  // the trainer alone went back
  clock.Advance(std::chrono::seconds(1000));
  EXPECT_EQ(scheduler->NextBatch(Batch(1)).status().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
  const v1::Ticket again[] = {admit(), admit()};
  clock.Advance(std::chrono::seconds(99));
  for (const v1::Ticket& ticket : again) end(ticket, v1::EPISODE_FINISHED, 1);
  const auto batch = scheduler->NextBatch(Batch(1));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(GroupsOf(*batch), std::vector<int64_t>{1});
  EXPECT_EQ(scheduler->Status()->stats().failed(), 0);
}

// The scheduler alone died: gateway and agents go on, so no running sample is handed out a second time.
TEST(RecoveryTest, AnOpenEpisodeRunsOnAndItsEndCounts) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  options.max_staleness = 0;
  options.group_deadline_seconds = 100;
  FakePool pool;
  base::ManualClock clock;
  auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  const auto first = scheduler->Admit({}), second = scheduler->Admit({});
  ASSERT_TRUE(first.ok() && second.ok());
  pool.Open(*first);
  pool.Open(*second);
  pool.End(EndOf(*first, v1::EPISODE_FINISHED, 0));  // the scheduler died before it was told

  scheduler = MustRecover(options, pool, clock, std::nullopt);
  EXPECT_EQ(scheduler->Status()->stats().running_episodes(), 1);
  EXPECT_EQ(scheduler->Admit({}).status().code(), absl::StatusCode::kResourceExhausted) << "both samples are taken";
  EXPECT_EQ(scheduler->Reconcile({})->running(), 1);
  pool.End(EndOf(*second, v1::EPISODE_FINISHED, 1));
  ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(*second, v1::EPISODE_FINISHED, 1)).ok());
  ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(*first, v1::EPISODE_FINISHED, 0)).ok()) << "a report that was repeated";
  EXPECT_EQ(scheduler->Status()->stats().running_episodes(), 0);
  EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(0))), std::vector<int64_t>{0});
}

TEST(RecoveryTest, AnEpisodeThatNobodyEndsFailsItsGroupInTime) {
  SchedulerOptions options = MakeOptions();
  options.group_deadline_seconds = 100;
  FakePool pool;
  base::ManualClock clock;
  auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  pool.Open(*scheduler->Admit({}));
  clock.Advance(std::chrono::seconds(60));
  scheduler = MustRecover(options, pool, clock, std::nullopt);
  clock.Advance(std::chrono::seconds(99));
  ASSERT_TRUE(scheduler->Tick().ok());
  EXPECT_EQ(scheduler->Status()->stats().failed(), 0);
  clock.Advance(std::chrono::seconds(2));
  ASSERT_TRUE(scheduler->Tick().ok());
  EXPECT_EQ(scheduler->Status()->stats().failed(), 1);
  EXPECT_EQ(scheduler->Status()->stats().running_episodes(), 0);
}

// With the whole run its agents are gone. A reward that was posted stands; everything else is tried again.
TEST(RecoveryTest, AResumeFinishesRewardedEpisodesAndTriesTheOthersAgain) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  FakePool pool;
  base::ManualClock clock;
  auto scheduler = MustRecover(options, pool, clock, 0);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  const auto rewarded = scheduler->Admit({}), other = scheduler->Admit({});
  ASSERT_TRUE(rewarded.ok() && other.ok());
  pool.Open(*rewarded);
  pool.Open(*other);
  pool.Reward(*rewarded, 0.5);
  pool.RewardCall(*other, "call", 0.25);  // of a part: the episode itself was not judged

  for (int life = 0; life < 2; ++life) scheduler = MustRecover(options, pool, clock, 0);
  const auto ended = pool.state().episodes;
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended.begin()->second.state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(ended.begin()->second.reward(), 0.5);
  EXPECT_EQ(ended.rbegin()->second.state(), v1::EPISODE_FENCED);
  EXPECT_EQ(ended.rbegin()->second.call_rewards().at("call"), 0.25);
  ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
  const auto again = scheduler->Admit({});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ref().sample_index(), 1);
  EXPECT_EQ(again->ref().attempt(), 1);
  pool.Open(*again);
  pool.End(EndOf(*again, v1::EPISODE_FINISHED, 1));
  ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(*again, v1::EPISODE_FINISHED, 1)).ok());
  EXPECT_EQ(scheduler->NextBatch(Batch(0))->stats().reward_mean(), 0.75);
}

// After a resume the same versions are live again and the same checkpoint is saved again. Each is a record of its own.
TEST(RecoveryTest, AnEventThatRecursAfterAResumeIsANewRecord) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  options.total_steps = 1;
  FakePool pool;
  base::ManualClock clock;
  v1::CheckpointRequest checkpoint;
  checkpoint.set_step(1);
  for (int life = 0; life < 3; ++life) {
    clock.Advance(std::chrono::seconds(1));
    auto scheduler = MustRecover(options, pool, clock, 0);
    ASSERT_TRUE(scheduler->MarkVersionLive(0).ok());
    if (life == 0) {
      for (const double reward : {0.0, 1.0}) {
        const auto ticket = scheduler->Admit({});
        pool.Open(*ticket);
        pool.End(EndOf(*ticket, v1::EPISODE_FINISHED, reward));
        ASSERT_TRUE(scheduler->ReportEpisodeEnd(EndOf(*ticket, v1::EPISODE_FINISHED, reward)).ok());
      }
    } else {  // the trainer is on its way: agents are told to wait, an evaluation may still need them
      EXPECT_TRUE(absl::IsResourceExhausted(scheduler->Admit({}).status()));
    }
    ASSERT_TRUE(scheduler->NextBatch(Batch(0)).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(scheduler->Admit({}).status()));
    ASSERT_TRUE(scheduler->MarkVersionLive(1).ok());
    ASSERT_TRUE(scheduler->MarkCheckpoint(checkpoint).ok());
  }
  int64_t live = 0;
  for (const auto& record : pool.state().journal) live += record.has_live();
  EXPECT_EQ(live, 6);
  const auto scheduler = MustRecover(options, pool, clock, std::nullopt);
  EXPECT_TRUE(absl::IsFailedPrecondition(scheduler->Admit({}).status()));
}

// The run's pool was lost. The journal of an empty one begins at the checkpoint: steps, versions and group ids go on.
TEST(RecoveryTest, AnEmptyPoolBeginsItsJournalAtTheCheckpoint) {
  SchedulerOptions options = MakeOptions();
  options.groups_per_step = 1;
  options.window_fraction = 1;
  FakePool pool;
  base::ManualClock clock;
  std::vector<std::string> tasks;
  const auto train = [&](Scheduler& scheduler, int64_t step) {
    for (const double reward : {0.0, 1.0}) {
      const auto ticket = scheduler.Admit({});
      ASSERT_TRUE(ticket.ok()) << ticket.status();
      if (reward == 0) tasks.push_back(ticket->task().task_id());
      pool.Open(*ticket);
      pool.End(EndOf(*ticket, v1::EPISODE_FINISHED, reward));
      ASSERT_TRUE(scheduler.ReportEpisodeEnd(EndOf(*ticket, v1::EPISODE_FINISHED, reward)).ok());
    }
    const auto batch = scheduler.NextBatch(Batch(step));
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(GroupsOf(*batch), std::vector<int64_t>{10 + step});
    EXPECT_EQ(batch->stats().next_group(), 11 + step);
    ASSERT_TRUE(scheduler.MarkVersionLive(step + 1).ok());
  };
  auto scheduler = MustRecover(options, pool, clock, ResumePoint(3, 13));
  EXPECT_EQ(scheduler->Status()->next_step(), 3);
  EXPECT_EQ(scheduler->Admit({}).status().code(), absl::StatusCode::kResourceExhausted) << "no version is live yet";
  EXPECT_EQ(scheduler->MarkVersionLive(4).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(scheduler->MarkVersionLive(3).ok());
  EXPECT_EQ(scheduler->Status()->stats().admitted_unreleased(), 0);
  ASSERT_NO_FATAL_FAILURE(train(*scheduler, 3));
  v1::CheckpointRequest checkpoint;
  checkpoint.set_step(4);
  ASSERT_TRUE(scheduler->MarkCheckpoint(checkpoint).ok());
  ASSERT_NO_FATAL_FAILURE(train(*scheduler, 4));

  // Alone restarted, and with the whole run from the newer checkpoint: the journal replays.
  scheduler = MustRecover(options, pool, clock, std::nullopt);
  EXPECT_EQ(scheduler->Status()->next_step(), 5);
  EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(4))), std::vector<int64_t>{14});
  scheduler = MustRecover(options, pool, clock, ResumePoint(4, 14));
  ASSERT_TRUE(scheduler->MarkVersionLive(4).ok());
  EXPECT_EQ(GroupsOf(*scheduler->NextBatch(Batch(4))), std::vector<int64_t>{14});
  ASSERT_TRUE(scheduler->MarkVersionLive(5).ok());
  ASSERT_NO_FATAL_FAILURE(train(*scheduler, 5));
  // Each group has the task that it would have had.
  TaskSampler sampler = *TaskSampler::Make(MakeTasks(5), {}, options.seed);
  const auto task = [&](int64_t group) { return sampler.Choose(group, 0)->task_id(); };
  EXPECT_EQ(tasks, (std::vector<std::string>{task(13), task(14), task(15)}));
  ASSERT_NO_FATAL_FAILURE(CheckJournalFrom(pool.state(), 3, 6));

  // Batches of the lost journal are gone for good: the error says so, and how to go on.
  const absl::Status behind = scheduler->NextBatch(Batch(2)).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(behind.message().find("begins at step 3"), std::string::npos) << behind;
  const absl::Status older = Scheduler::Recover(options, MakeTasks(5), pool, clock, 2).status();
  EXPECT_EQ(older.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(older.message().find("mv RUN/pool RUN/pool.damaged"), std::string::npos) << older;
}

// Checkpoints of older versions do not name the group.
TEST(RecoveryTest, AnEmptyPoolBeginsAfterAllTrainedGroupsAtLeast) {
  FakePool pool;
  base::ManualClock clock;
  const auto scheduler = MustRecover(MakeOptions(), pool, clock, 3);
  EXPECT_EQ(scheduler->Status()->stats().next_group(), 6);  // of 3 steps of 2 groups
}

// At every moment of a run its pool may be lost: from its checkpoint it ends with all its steps.
TEST(RecoveryTest, AnyCheckpointGoesOnWithAnEmptyPool) {
  const std::vector<Moment> moments = RecordRun(21);
  std::set<int64_t> tried;
  for (size_t i = 0; i < moments.size(); ++i) {
    const int64_t checkpoint = LastCheckpoint(moments[i].state);
    if (checkpoint == 0 || !tried.insert(checkpoint).second) continue;
    SCOPED_TRACE("checkpoint " + std::to_string(checkpoint));
    FakePool pool;
    Notebook notebook;
    World world(pool, notebook, 7000 + i, checkpoint);
    ASSERT_NO_FATAL_FAILURE(world.RunToTheEnd());
    ASSERT_NO_FATAL_FAILURE(CheckJournalFrom(pool.state(), checkpoint, MakeOptions().total_steps));
  }
  EXPECT_GT(tried.size(), 1u);
}

TEST(RecoveryTest, AJournalThatLostItsLastRecordsIsDataLoss) {
  FakePool pool;
  base::ManualClock clock;
  ASSERT_TRUE(MustRecover(MakeOptions(), pool, clock, 0)->MarkVersionLive(0).ok());
  pool.LoseRecords(1);
  const absl::Status status = Scheduler::Recover(MakeOptions(), MakeTasks(5), pool, clock, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("start the run again with --resume"), std::string::npos) << status;
}

}  // namespace
}  // namespace ingot::scheduler
