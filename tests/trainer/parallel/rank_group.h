// Ranks as threads of the test's process: the same sockets and exchanges as between processes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "trainer/parallel/ranks.h"

namespace ingot::trainer {

// c10d keeps one record of collectives per process and adds groups to it without a lock, since a process has one rank.
inline const bool kFlightRecorderOff = setenv("TORCH_FR_BUFFER_SIZE", "0", 1) == 0;

// A port on which no process listens.
inline int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

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
