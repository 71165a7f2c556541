// Small makers for the scheduler's tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "scheduler/fake_pool.h"
#include "scheduler/scheduler.h"

namespace ingot::scheduler {

inline std::vector<v1::Task> MakeTasks(int count) {
  std::vector<v1::Task> tasks(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tasks[static_cast<size_t>(i)].set_task_id("t" + std::to_string(i));
  return tasks;
}

inline std::unique_ptr<Scheduler> MustRecover(const SchedulerOptions& options, FakePool& pool, const base::Clock& clock,
                                              std::optional<ResumePoint> resume) {
  auto scheduler = Scheduler::Recover(options, MakeTasks(5), pool, clock, resume);
  EXPECT_TRUE(scheduler.ok()) << scheduler.status();
  return scheduler.ok() ? *std::move(scheduler) : nullptr;
}

inline v1::ReportEpisodeEndRequest EndOf(const v1::Ticket& ticket, v1::EpisodeState state, double reward = 0) {
  v1::ReportEpisodeEndRequest request;
  *request.mutable_ref() = ticket.ref();
  request.set_purpose(ticket.purpose());
  request.set_state(state);
  request.set_reward(reward);
  request.set_pinned_version(ticket.pinned_version());
  return request;
}

inline v1::NextBatchRequest Batch(int64_t step, int64_t wait_ms = 0) {
  v1::NextBatchRequest request;
  request.set_step(step);
  request.set_wait_ms(wait_ms);
  return request;
}

inline std::vector<int64_t> GroupsOf(const v1::NextBatchResponse& response) {
  return {response.batch().group_ids().begin(), response.batch().group_ids().end()};
}

}  // namespace ingot::scheduler
