#include "weights/pieces.h"

#include <algorithm>
#include <atomic>

#include "base/executor.h"
#include "base/log.h"

namespace ingot::weights {

void ForEachPiece(int threads, int64_t count, const std::function<void(int64_t piece, int worker)>& work) {
  const auto workers = static_cast<int>(std::min<int64_t>(threads, count));
  std::atomic<int64_t> next = 0;
  const auto run = [&](int worker) {
    for (int64_t piece = next++; piece < count; piece = next++) work(piece, worker);
  };
  if (workers <= 1) return run(0);
  base::Executor others({.name = "pieces", .threads = 0});
  // If no other threads can be started, the calling thread does all the work.
  if (const absl::Status added = others.AddThreads(workers - 1); !added.ok()) {
    INGOT_LOG(warn, "weights are processed by fewer than {} threads: {}", workers, added.ToString());
  }
  for (int worker = 1; worker < workers; ++worker) others.Post([&run, worker] { run(worker); });
  run(0);
  others.Shutdown();  // waits for the posted work
}

int ThreadsFor(int64_t bytes, int most) {
  constexpr int64_t kFewestBytes = int64_t{4} << 20;
  return static_cast<int>(std::clamp<int64_t>(bytes / kFewestBytes, 1, std::max(most, 1)));
}

}  // namespace ingot::weights
