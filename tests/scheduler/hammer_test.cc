// Many agents, a trainer and a dashboard at once, for the thread sanitizer: no group is trained twice, B is never
// passed.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/rng.h"
#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

TEST(SchedulerHammerTest, AgentsTrainerAndDashboardAtOnce) {
  const SchedulerOptions options{.group_size = 4,
                                 .groups_per_step = 4,
                                 .max_staleness = 2,
                                 .window_fraction = 0.5,
                                 .total_steps = 400,
                                 .max_attempts = 4};
  FakePool pool;
  base::Metrics metrics;
  auto made = Scheduler::Recover(options, MakeTasks(9), pool, base::Clock::Real(), 0, &metrics);
  ASSERT_TRUE(made.ok());
  Scheduler& scheduler = **made;
  ASSERT_TRUE(scheduler.MarkVersionLive(0).ok());

  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (uint64_t agent = 0; agent < 6; ++agent) {
    threads.emplace_back([&, agent] {
      for (uint64_t draw = 0; !over; ++draw) {
        const auto ticket = scheduler.Admit({});
        if (!ticket.ok()) {
          if (absl::IsFailedPrecondition(ticket.status())) return;
          ASSERT_TRUE(absl::IsResourceExhausted(ticket.status())) << ticket.status();
          std::this_thread::yield();
          continue;
        }
        pool.Open(*ticket);
        const double luck = base::UniformAt(agent, draw);
        const auto end =
            luck < 0.05 ? EndOf(*ticket, v1::EPISODE_FAILED) : EndOf(*ticket, v1::EPISODE_FINISHED, luck < 0.5 ? 1 : 0);
        pool.End(end);
        ASSERT_TRUE(scheduler.ReportEpisodeEnd(end).ok());
      }
    });
  }
  threads.emplace_back([&] {
    while (!over) {
      ASSERT_LE(scheduler.Status()->stats().admitted_unreleased(), 12);
      (void)metrics.RenderText();
      ASSERT_TRUE(scheduler.Tick().ok());
      std::this_thread::yield();
    }
  });

  std::set<int64_t> trained;
  for (int64_t step = 0; step < options.total_steps; ++step) {
    const auto response = scheduler.NextBatch(Batch(step, 60'000));
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(response->batch().group_ids_size(), 4);
    for (const int64_t group : response->batch().group_ids()) ASSERT_TRUE(trained.insert(group).second);
    ASSERT_TRUE(scheduler.MarkVersionLive(step + 1).ok());
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trained.size(), 1600u);
}

}  // namespace
}  // namespace ingot::scheduler
