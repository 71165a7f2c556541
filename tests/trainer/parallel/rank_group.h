// Ranks as threads of the test's process: the same sockets and exchanges as between processes.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/free_port.h"
#include "trainer/parallel/ranks.h"

namespace ingot::trainer {

// c10d keeps one record of collectives per process and adds groups to it without a lock, since a process has one rank.
inline const bool kFlightRecorderOff = setenv("TORCH_FR_BUFFER_SIZE", "0", 1) == 0;

using base::testing::FreePort;

inline RankOptions RankOf(int rank, int size, int port) {
  RankOptions options;
  options.rank = rank;
  options.size = size;
  options.port = port;
  return options;
}

// Runs `body` on every rank, each a thread; returns when all have. `adapt` may change a rank's options.
inline void OnRanks(int size, const std::function<void(Ranks&)>& body,
                    const std::function<void(RankOptions&)>& adapt = nullptr) {
  const int port = FreePort();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      RankOptions options = RankOf(rank, size, port);
      if (adapt) adapt(options);
      const auto ranks = Ranks::Join(options);
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      body(**ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ingot::trainer
