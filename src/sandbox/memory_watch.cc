#include "sandbox/memory_watch.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sandbox/sandbox_processes.h"

namespace ingot::sandbox {
namespace {

constexpr std::chrono::milliseconds kPeriod(500);
constexpr std::chrono::milliseconds kSecondLook(20);
constexpr int kMinRest = 20;  // times the duration of a check

std::string FileOf(pid_t pid, const char* name) { return absl::StrCat("/proc/", pid, "/", name); }

int64_t ResidentBytes(pid_t pid) {
  static const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  std::ifstream file(FileOf(pid, "statm"));
  int64_t size = 0, resident = 0;
  return file >> size >> resident ? resident * page_bytes : 0;
}

// Returns the numbers in a file with lines "NAME: N kB", in bytes.
std::map<std::string, int64_t> Sizes(const std::string& path) {
  std::map<std::string, int64_t> sizes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (words >> name >> kib) sizes[name] = kib * 1024;
  }
  return sizes;
}

// Returns the processes' memory that is not backed by files.
int64_t SumOf(const std::vector<pid_t>& pids) {
  int64_t sum = 0, largest_shared = 0;
  for (const pid_t pid : pids) {
    // This file divides shared memory among the processes that share it.
    std::map<std::string, int64_t> parts = Sizes(FileOf(pid, "smaps_rollup"));
    if (parts.contains("Pss_Anon:")) {
      sum += parts["Pss_Anon:"] + parts["Pss_Shmem:"];
    } else if (parts.contains("Pss:")) {  // before Linux 5.4
      sum += parts["Pss:"];
    } else {  // that file is not readable, but this one is
      std::map<std::string, int64_t> whole = Sizes(FileOf(pid, "status"));
      sum += whole["RssAnon:"];
      largest_shared = std::max(largest_shared, whole["RssShmem:"]);
    }
  }
  return sum + largest_shared;
}

bool UseMore(const std::vector<pid_t>& pids, int64_t limit_bytes) {
  int64_t resident = 0;
  for (const pid_t pid : pids) resident += ResidentBytes(pid);
  // The sum of the parts is never larger, but requires a walk through the page tables of every process.
  return resident > limit_bytes && SumOf(pids) > limit_bytes;
}

}  // namespace

MemoryWatch::MemoryWatch(pid_t first, int64_t limit_bytes)
    : first_(first),
      limit_bytes_(limit_bytes),
      next_(first > 0 && limit_bytes > 0 ? SteadyClock::now() + kPeriod : SteadyClock::time_point::max()) {}

bool MemoryWatch::IsExceeded(SteadyClock::time_point now) {
  if (now < next_) return false;
  const std::vector<pid_t> tree = ProcessesOf(first_);
  bool is_exceeded = UseMore(tree, limit_bytes_);
  if (is_exceeded) {
    // A child between vfork and exec shows its parent's memory as its own, so short-lived processes do not count.
    std::this_thread::sleep_for(kSecondLook);
    const std::vector<pid_t> now_there = ProcessesOf(first_);
    std::vector<pid_t> stayed;
    std::set_intersection(tree.begin(), tree.end(), now_there.begin(), now_there.end(), std::back_inserter(stayed));
    is_exceeded = UseMore(stayed, limit_bytes_);
  }
  const auto took = SteadyClock::now() - now;
  next_ = SteadyClock::now() + std::max<SteadyClock::duration>(kPeriod, kMinRest * took);
  return is_exceeded;
}

}  // namespace ingot::sandbox
