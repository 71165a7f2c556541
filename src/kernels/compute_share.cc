#include "kernels/compute_share.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

namespace ingot::kernels {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr int64_t Ns(std::chrono::nanoseconds time) { return time.count(); }

// Returns how many threads are running or ready to run on the machine, including this one; -1 = unknown.
int RunningThreads() {
  static const int file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  char text[128];
  const ssize_t size = file < 0 ? -1 : pread(file, text, sizeof(text) - 1, 0);
  if (size <= 0) return -1;
  text[size] = '\0';
  int running = -1;
  return std::sscanf(text, "%*f %*f %*f %d/", &running) == 1 ? running : -1;
}

// Returns the number of cores on which the calling thread may run. Its crew inherits them.
int UsableCores() {
  cpu_set_t usable;
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? std::min(all, CPU_COUNT(&usable)) : all;
}

}  // namespace

int LendableThreads(const ComputeTable& table, int own, int total, int64_t now_ns) {
  int64_t used = 0;
  int computing = 0;
  for (int i = 0; i < ComputeTable::kEntries; ++i) {
    const ComputeTable::Entry& entry = table.entries[i];
    // A much later time was written before the machine restarted, and one that is later by little more than a lease
    // since now_ns.
    const int64_t until = entry.computes_until_ns.load(std::memory_order_relaxed);
    if (i != own && (until <= now_ns || until > now_ns + 2 * Ns(ComputeMember::kLease))) continue;
    used += std::clamp(entry.threads.load(std::memory_order_relaxed), 0, total);
    ++computing;
  }
  return static_cast<int>(std::max<int64_t>(total - used, 0)) / computing;
}

int IdleCores(int ours) {
  static const int cores = UsableCores();
  const int running = RunningThreads();
  return running < 0 ? std::numeric_limits<int>::max() : std::max(cores - running + ours, 0);
}

ComputeMember::ComputeMember(std::shared_ptr<ComputeTable> table, int place, int threads, int total,
                             std::function<int(int)> idle_cores)
    : table_(std::move(table)), place_(place), threads_(threads), total_(total), idle_cores_(std::move(idle_cores)) {
  End();
  entry().threads.store(threads, std::memory_order_relaxed);
}

ComputeMember::~ComputeMember() { End(); }

void ComputeMember::Begin() {
  look_at_ns_ = 0;
  entry().computes_until_ns.store(NowNs() + Ns(kLease), std::memory_order_relaxed);
}

void ComputeMember::End() { entry().computes_until_ns.store(0, std::memory_order_relaxed); }

int ComputeMember::Borrow(int awake) {
  const int64_t now = NowNs();
  if (now < look_at_ns_) return borrowed_;
  look_at_ns_ = now + Ns(kLook);
  entry().computes_until_ns.store(now + Ns(kLease), std::memory_order_relaxed);
  borrowed_ = LendableThreads(*table_, place_, total_, now);
  // The member's own threads are expected on their cores, whoever else runs there.
  const int others = threads_ - 1;
  if (borrowed_ > 0) borrowed_ = std::min(borrowed_, std::max(idle_cores_(awake) - others, 0));
  return borrowed_;
}

void ComputeMember::CountBorrowed(std::chrono::nanoseconds time) {
  entry().borrowed_ns.fetch_add(time.count(), std::memory_order_relaxed);
}

}  // namespace ingot::kernels
