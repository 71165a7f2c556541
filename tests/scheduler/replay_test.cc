// A hundred thousand random events on the scheduler, held against the naive model of the window's law. At random events
// the scheduler crashes: a second one replays the journal from a copy of the pool. Both then get the same events, and
// every answer of the two must be equal. The run goes on with the replayed one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "scheduler/makers.h"
#include "scheduler/policy_sim.h"

namespace ingot::scheduler::replay_test {
namespace {

constexpr int64_t kEventsPerRun = 4000;
constexpr int64_t kEventsTogether = 60;  // that the crashed and the replayed scheduler both get

// Thousands of replays would otherwise each log a line.
const bool kQuiet = (spdlog::set_level(spdlog::level::err), true);

// One scheduler and its pool.
struct Side {
  std::unique_ptr<FakePool> pool;
  std::unique_ptr<Scheduler> scheduler;
};

// An answer as text, without the fields that count from a process's start.
std::string TextOf(v1::FeedStats stats) {
  stats.clear_running_episodes();
  stats.clear_finished_episodes();
  return stats.ShortDebugString();
}
std::string TextOf(const absl::StatusOr<v1::Ticket>& ticket) {
  return ticket.ok() ? ticket->ShortDebugString() : ticket.status().ToString();
}
std::string TextOf(const absl::StatusOr<v1::NextBatchResponse>& response) {
  if (!response.ok()) return absl::StatusCodeToString(response.status().code());
  return response->batch().ShortDebugString() + TextOf(response->stats());
}

class ReplayedRun {
 public:
  explicit ReplayedRun(uint64_t seed) : seed_(seed), options_(RandomOptions()), naive_(options_.window()) {
    auto pool = std::make_unique<FakePool>();
    auto scheduler = MustRecover(options_, *pool, clock_, 0);
    sides_.push_back({std::move(pool), std::move(scheduler)});
    Live(0);
  }

  int64_t crashes() const { return crashes_; }
  int64_t batches() const { return std::ssize(naive_.batches()); }
  int64_t greatest_age() const { return naive_.greatest_age(); }
  int64_t age_bound() const {
    const int64_t p = options_.groups_per_step;
    return options_.max_staleness + (options_.window().Window() - 1 + p - 1) / p;
  }

  void Go() {
    for (int64_t event = 0, together = 0; event < kEventsPerRun; ++event) {
      const double kind = Draw();
      if (kind < 0.45) {
        ASSERT_NO_FATAL_FAILURE(Admit());
      } else if (kind < 0.8) {
        ASSERT_NO_FATAL_FAILURE(End());
      } else if (kind < 0.9) {
        ASSERT_NO_FATAL_FAILURE(Train());
      } else if (kind < 0.99) {
        if (live_ < version_) Live(live_ + 1);
      } else {
        ASSERT_NO_FATAL_FAILURE(TrainerGoesBack());
      }
      ASSERT_NO_FATAL_FAILURE(Compare());
      if (sides_.size() == 1 && Draw() < 0.01) {
        ASSERT_NO_FATAL_FAILURE(Crash());
        together = 0;
      } else if (sides_.size() == 2 && ++together == kEventsTogether) {
        sides_.erase(sides_.begin());
        journal_end_ = std::ssize(sides_.front().pool->state().journal);
      }
    }
  }

 private:
  // The agents' knowledge of a sample.
  struct Attempt {
    int32_t number = 0;
    bool finished = false;
  };

  double Draw() { return base::UniformAt(seed_, draws_++); }
  int64_t Draw(int64_t below) { return static_cast<int64_t>(Draw() * static_cast<double>(below)); }

  SchedulerOptions RandomOptions() {
    return {.group_size = static_cast<int32_t>(1 + Draw(3)),
            .groups_per_step = 1 + Draw(4),
            .max_staleness = Draw(4),
            .window_fraction = 0.1 + 0.9 * Draw(),
            .total_steps = 1'000'000,
            .max_attempts = static_cast<int32_t>(1 + Draw(3))};
  }

  // Gives the event to every side; all answers must be equal. Returns the older side's.
  template <typename Event>
  auto Ask(Event event) {
    auto answer = event(*sides_.front().scheduler);
    if (sides_.size() == 2) {
      EXPECT_EQ(TextOf(event(*sides_.back().scheduler)), TextOf(answer));
    }
    return answer;
  }

  void Admit() {
    const absl::StatusOr<v1::Ticket> ticket = Ask([](Scheduler& scheduler) { return scheduler.Admit({}); });
    ASSERT_FALSE(::testing::Test::HasFailure());
    if (!ticket.ok()) {
      ASSERT_TRUE(absl::IsResourceExhausted(ticket.status())) << ticket.status();
      return;
    }
    for (Side& side : sides_) side.pool->Open(*ticket);
    std::vector<Attempt>& samples = samples_[ticket->ref().group_id()];
    samples.resize(static_cast<size_t>(options_.group_size));
    samples[static_cast<size_t>(ticket->ref().sample_index())].number = ticket->ref().attempt();
    running_.push_back(*ticket);
  }

  void End() {
    if (running_.empty()) return;
    std::swap(running_[static_cast<size_t>(Draw(std::ssize(running_)))], running_.back());
    const v1::Ticket ticket = running_.back();
    running_.pop_back();
    const double outcome = Draw();
    End(ticket,
        outcome < 0.1    ? v1::EPISODE_FAILED
        : outcome < 0.15 ? v1::EPISODE_FENCED
                         : v1::EPISODE_FINISHED,
        static_cast<double>(Draw(3)) / 4);
  }

  void End(const v1::Ticket& ticket, v1::EpisodeState state, double reward) {
    const v1::ReportEpisodeEndRequest end = EndOf(ticket, state, reward);
    for (Side& side : sides_) {
      side.pool->End(end);
      ASSERT_TRUE(side.scheduler->ReportEpisodeEnd(end).ok());
    }
    ReadJournal();
    const auto group = samples_.find(ticket.ref().group_id());
    if (group == samples_.end()) return;  // closed by this end or an earlier one
    Attempt& attempt = group->second[static_cast<size_t>(ticket.ref().sample_index())];
    if (state != v1::EPISODE_FINISHED || attempt.number != ticket.ref().attempt()) return;
    attempt.finished = true;
    if (std::all_of(group->second.begin(), group->second.end(), [](const Attempt& a) { return a.finished; })) {
      naive_.Finish(ticket.ref().group_id());
      samples_.erase(group);
    }
  }

  void Train() {
    const absl::StatusOr<v1::NextBatchResponse> response =
        Ask([&](Scheduler& scheduler) { return scheduler.NextBatch(Batch(version_)); });
    ASSERT_FALSE(::testing::Test::HasFailure());
    if (!response.ok()) {
      ASSERT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
      return;
    }
    ASSERT_NO_FATAL_FAILURE(ReadJournal());
    ASSERT_EQ(GroupsOf(*response), naive_.batches().at(static_cast<size_t>(version_)));
    ++version_;
    if (Draw() < 0.2) {
      checkpoint_ = version_;
      v1::CheckpointRequest request;
      request.set_step(version_);
      for (Side& side : sides_) ASSERT_TRUE(side.scheduler->MarkCheckpoint(request).ok());
    }
  }

  void Live(int64_t version) {
    live_ = version;
    for (Side& side : sides_) ASSERT_TRUE(side.scheduler->MarkVersionLive(version).ok());
    ReadJournal();
  }

  // The trainer alone restarts at its checkpoint: it publishes that version and asks for the next batch.
  void TrainerGoesBack() {
    version_ = checkpoint_;
    Live(checkpoint_);
    ASSERT_NO_FATAL_FAILURE(Train());
  }

  // Brings the journal's new records to the naive model.
  void ReadJournal() {
    v1::ReadJournalRequest request;
    request.set_from_index(journal_end_);
    const auto page = sides_.front().pool->ReadJournal(request);
    ASSERT_TRUE(page.ok());
    journal_end_ += page->records_size();
    for (const v1::JournalRecord& record : page->records()) {
      if (record.has_admitted()) {
        ASSERT_NO_FATAL_FAILURE(naive_.Admit(record.admitted().admitted_version()));
      }
      if (record.has_closed()) {
        naive_.Close(record.closed().group_id());
        samples_.erase(record.closed().group_id());
      }
      if (record.has_batch()) {
        const auto& groups = record.batch().group_ids();
        ASSERT_NO_FATAL_FAILURE(naive_.TakeBatch({groups.begin(), groups.end()}));
      }
      if (!record.has_live()) continue;
      naive_.Live(record.live().version());
      for (const v1::EpisodeRef& ref : record.live().fenced()) {
        const auto group = samples_.find(ref.group_id());
        if (group == samples_.end()) continue;
        group->second[static_cast<size_t>(ref.sample_index())].number = ref.attempt() + 1;
      }
    }
  }

  void Compare() {
    ASSERT_NO_FATAL_FAILURE(ReadJournal());
    const v1::SchedulerStatusResponse status = *sides_.front().scheduler->Status();
    ASSERT_EQ(status.stats().head(), naive_.HeadAfterTaking());
    ASSERT_EQ(status.stats().admitted_unreleased(), naive_.Unreleased());
    ASSERT_EQ(status.next_step(), batches());
    if (sides_.size() == 1) return;
    const v1::SchedulerStatusResponse replayed = *sides_.back().scheduler->Status();
    ASSERT_EQ(TextOf(replayed.stats()), TextOf(status.stats()));
    ASSERT_EQ(replayed.next_step(), status.next_step());
    ASSERT_EQ(replayed.finished(), status.finished());
  }

  // The scheduler dies. In half of the crashes the trainer, the engines and the agents die, too, and the whole run
  // resumes from its checkpoint: the crashed scheduler learns of the same losses by calls. Otherwise the running episodes
  // go on.
  void Crash() {
    ++crashes_;
    const bool all = Draw() < 0.5;
    auto copy = std::make_unique<FakePool>(sides_.front().pool->state());
    copy->set_page(97);
    auto replayed = MustRecover(options_, *copy, clock_, all ? std::optional(checkpoint_) : std::nullopt);
    ASSERT_NE(replayed, nullptr);
    for (const v1::Ticket& ticket : all ? std::exchange(running_, {}) : std::vector<v1::Ticket>()) {
      ASSERT_NO_FATAL_FAILURE(End(ticket, v1::EPISODE_FENCED, 0));
    }
    sides_.push_back({std::move(copy), std::move(replayed)});
    if (all) {
      ASSERT_NO_FATAL_FAILURE(TrainerGoesBack());
    }
    ASSERT_NO_FATAL_FAILURE(Compare());
  }

  const uint64_t seed_;
  uint64_t draws_ = 0;
  const SchedulerOptions options_;
  NaiveWindow naive_;
  const base::ManualClock clock_;
  std::vector<Side> sides_;  // the oldest first
  std::vector<v1::Ticket> running_;
  std::map<int64_t, std::vector<Attempt>> samples_;  // of open groups
  int64_t journal_end_ = 0;                          // records of the first side's journal that the model was told
  int64_t version_ = 0;                              // of the trainer
  int64_t live_ = 0;                                 // of the engines
  int64_t checkpoint_ = 0;                           // the trainer's newest
  int64_t crashes_ = 0;
};

TEST(ReplayTest, AReplayedSchedulerDecidesAsTheOneThatCrashed) {
  int64_t crashes = 0, batches = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReplayedRun run(seed);
    ASSERT_NO_FATAL_FAILURE(run.Go());
    EXPECT_LE(run.greatest_age(), run.age_bound());
    crashes += run.crashes();
    batches += run.batches();
  }
  EXPECT_GT(crashes, 250);
  EXPECT_GT(batches, 1000);
}

}  // namespace
}  // namespace ingot::scheduler::replay_test
