#include "app/run/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Threads, AsManyAsTheSystemGivesAreFine) { EXPECT_TRUE(CheckThreads(50).ok()) << CheckThreads(50); }

// In a process of its own, which can be given a small limit. Root has none, so that it becomes another user first.
void CheckWithLimit(rlim_t limit, int count) {
  if (geteuid() == 0 && setreuid(65531, 65531) != 0) _exit(3);
  const rlimit small{limit, limit};
  if (setrlimit(RLIMIT_NPROC, &small) != 0) _exit(4);
  const absl::Status status = CheckThreads(count);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(status.ok() ? 0 : absl::IsResourceExhausted(status) ? 1 : 2);
}

TEST(Threads, TooFewAreAnErrorThatSaysWhatToRaise) {
  if (geteuid() != 0) GTEST_SKIP() << "this user's other processes count too";
  EXPECT_EXIT(CheckWithLimit(20, 50), ::testing::ExitedWithCode(1),
              "needs about 50 threads, but the system allows only 19.*ulimit -u is 20.*raise the limit, or lower "
              "agents.concurrency");
  EXPECT_EXIT(CheckWithLimit(60, 50), ::testing::ExitedWithCode(0), "OK");
}

TEST(Threads, ARunNeedsMoreForMoreAgents) {
  RunConfig config;
  config.agents.concurrency = 100;
  const int none = ThreadsOf(config);
  config.agents.recipes.emplace_back();
  EXPECT_EQ(ThreadsOf(config), none + 200);
}

TEST(Threads, ALaunchNeedsThoseOfEachOfItsProcesses) {
  RunConfig config;
  config.tasks = "tasks.jsonl";
  const int small = ThreadsOfLaunch(config), rank = ThreadsOfRole(config, "trainer"),
            engine = ThreadsOfRole(config, "rollout");
  EXPECT_GT(small, rank + engine);
  config.cluster.trainer_ranks += 2;
  config.cluster.rollout_engines += 3;
  EXPECT_EQ(ThreadsOfLaunch(config), small + 2 * rank + 3 * engine);
  config.tasks = "";  // supervised training has no other role
  EXPECT_EQ(ThreadsOfLaunch(config), 3 * rank);
}

TEST(Threads, ServingNeedsMoreForMoreEngines) { EXPECT_EQ(ThreadsOfServing(3, 4), ThreadsOfServing(1, 4) + 16); }

}  // namespace
}  // namespace ingot::app
