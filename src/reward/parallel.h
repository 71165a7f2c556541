// Runs functions that wait for servers on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace ingot::reward {

// Calls work(0) to work(count - 1), at most `threads` at a time. Returns when all calls have returned.
inline void ForEach(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min(count, static_cast<size_t>(std::max(threads, 1))); ++i) others.emplace_back(run);
  run();
}

}  // namespace ingot::reward
