// Loops on a crew: every index once, on all threads at once, whether they spin or sleep in between.
#include "kernels/crew.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ingot::kernels {
namespace {

// How often a loop of `count` meets each index.
std::vector<int> Visits(Crew& crew, int64_t count) {
  std::vector<int> visits(static_cast<size_t>(count));  // ranges that overlap would race for an element
  crew.Run(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  return visits;
}

TEST(CrewTest, EveryIndexIsMetOnce) {
  for (const int threads : {1, 2, 3, 5}) {
    Crew crew(threads);
    EXPECT_EQ(crew.threads(), threads);
    for (const int64_t count : {0, 1, 2, 4, 5, 7, 1000}) {
      EXPECT_EQ(Visits(crew, count), std::vector<int>(static_cast<size_t>(count), 1)) << threads << " " << count;
    }
  }
}

// The ranges wait for each other: on fewer threads they would wait for ever.
TEST(CrewTest, AllThreadsComputeAtOnce) {
  Crew crew(4);
  std::atomic<int> arrived{0}, together{0};
  crew.Run(8, [&](int64_t begin, int64_t end) {
    arrived += static_cast<int>(end - begin);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 8 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived == 8) ++together;
  });
  EXPECT_EQ(together, 4);
}

TEST(CrewTest, ALoopUsesAtMostTheGivenNumberOfThreads) {
  Crew crew(1);
  crew.Grow(4);
  EXPECT_EQ(crew.threads(), 4);
  crew.Grow(2);
  EXPECT_EQ(crew.threads(), 4) << "it never shrinks";
  for (const int most : {0, 1, 2, 3, 9}) {
    std::atomic<int> ranges{0};
    std::atomic<int64_t> sum{0};
    crew.Run(
        100,
        [&](int64_t begin, int64_t end) {
          ++ranges;
          for (int64_t i = begin; i < end; ++i) sum += i;
        },
        most);
    EXPECT_EQ(ranges, most == 0 || most > 4 ? 4 : most) << most;
    EXPECT_EQ(sum, 4950) << most;
  }
}

// The other thread may run on one core only, where two threads of this process never yield. So it starts late, and
// often in a later loop.
TEST(CrewTest, ALoopDoesNotWaitForAThreadThatHasNoCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two cores";
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &before)) cores.push_back(i);
  }
  const auto pin = [&one](int core) {
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof(one), &one);
  };
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&] {
      pin(cores[0]);
      while (!over) {
      }
    });
  }
  ASSERT_EQ(pin(cores[0]), 0);
  Crew crew(2);  // its thread inherits the core
  ASSERT_EQ(pin(cores[1]), 0);
  int64_t sum = 0;
  int both = 0;  // loops whose ranges were both computed here
  std::vector<int64_t> parts(2);
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int> here{0};
    crew.Run(2, [&, caller = std::this_thread::get_id()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) parts[static_cast<size_t>(i)] = round + i;
      here += std::this_thread::get_id() == caller;
    });
    sum += parts[0] + parts[1];
    both += here == 2;
  }
  over = true;
  for (std::thread& thread : busy) thread.join();
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(sum, int64_t{1999} * 2000 + 2000);
  EXPECT_GT(both, 100);
}

TEST(CrewTest, LoopsFollowEachOtherAtOnceAndAfterSleep) {
  Crew crew(3);
  int64_t sum = 0;
  std::vector<int64_t> parts(3);
  for (int round = 0; round < 20000; ++round) {
    // Some pauses are longer than threads spin, and some end while they fall asleep.
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round / 100));
    crew.Run(3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) parts[static_cast<size_t>(i)] = round + i;
    });
    sum += std::accumulate(parts.begin(), parts.end(), int64_t{0});
  }
  EXPECT_EQ(sum, int64_t{3} * 19999 * 20000 / 2 + int64_t{3} * 20000);
}

TEST(CrewTest, AnErrorComesAfterAllRangesHaveEnded) {
  Crew crew(3);
  for (int place = 0; place < 3; ++place) {
    std::atomic<int> ended{0};
    EXPECT_THROW(crew.Run(3,
                          [&](int64_t begin, int64_t) {
                            if (begin == place) throw std::runtime_error("one range");
                            std::this_thread::sleep_for(std::chrono::milliseconds(5));
                            ++ended;
                          }),
                 std::runtime_error);
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(Visits(crew, 9), std::vector<int>(9, 1)) << "the next loop";
  }
}

TEST(CrewTest, EndsWhetherItsThreadsSpinOrSleep) {
  for (const int pause : {0, 10}) {
    Crew crew(3);
    if (pause > 0) Visits(crew, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
}

}  // namespace
}  // namespace ingot::kernels
