#include "sandbox/memory_watch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPeriod(500);
constexpr std::chrono::milliseconds kSecondLook(20);
constexpr int kLeastRest = 20;  // times the time that a look took
// Processes that come and go may be found twice. This many are no room's any more.
constexpr size_t kMostProcesses = 65536;

std::string FileOf(pid_t pid, const char* name) { return absl::StrCat("/proc/", pid, "/", name); }

// The children that each thread of `pid` has. Some may be missed while others end: a later look finds them.
void AddChildren(pid_t pid, std::vector<pid_t>& found) {
  std::error_code error;
  for (fs::directory_iterator it(FileOf(pid, "task"), error), end; !error && it != end; it.increment(error)) {
    std::ifstream children(it->path() / "children");
    for (pid_t child; found.size() < kMostProcesses && children >> child;) found.push_back(child);
  }
}

// `first` is the nearest subreaper above every process of its room, so that orphans are its children.
std::vector<pid_t> TreeOf(pid_t first) {
  std::vector<pid_t> found = {first};
  for (size_t i = 0; i < found.size(); ++i) AddChildren(found[i], found);
  // A child whose thread ended meanwhile is found with the next thread too.
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

struct Resident {
  int64_t all = 0, own = 0;  // bytes; own = those of no file and no shared memory
};

Resident ResidentBytes(pid_t pid) {
  static const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  std::ifstream file(FileOf(pid, "statm"));
  int64_t size = 0, resident = 0, shared = 0;
  if (!(file >> size >> resident >> shared)) return {};
  return {resident * page_bytes, (resident - shared) * page_bytes};
}

// The share of a process in memory that no file holds; nullopt = it may not be read, or the process has ended.
std::optional<int64_t> ShareBytes(pid_t pid) {
  std::ifstream file(FileOf(pid, "smaps_rollup"));
  std::optional<int64_t> anonymous, all;
  int64_t shared = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (!(words >> name >> kib)) continue;  // the title
    if (name == "Pss:") all = kib * 1024;
    if (name == "Pss_Anon:") anonymous = kib * 1024;
    if (name == "Pss_Shmem:") shared = kib * 1024;
  }
  if (anonymous.has_value()) return *anonymous + shared;
  return all;  // of Linux before 5.4
}

bool UsesMore(pid_t first, int64_t limit_bytes) {
  const std::vector<pid_t> tree = TreeOf(first);
  int64_t resident = 0;
  for (const pid_t pid : tree) resident += ResidentBytes(pid).all;
  // The sum of shares is never more, and costs a walk through the page tables of every process.
  if (resident <= limit_bytes) return false;
  int64_t sum = 0;
  for (const pid_t pid : tree) {
    const std::optional<int64_t> share = ShareBytes(pid);
    sum += share.has_value() ? *share : ResidentBytes(pid).own;
  }
  return sum > limit_bytes;
}

}  // namespace

MemoryWatch::MemoryWatch(pid_t first, int64_t limit_bytes)
    : first_(first),
      limit_bytes_(limit_bytes),
      next_(first > 0 && limit_bytes > 0 ? SteadyClock::now() + kPeriod : SteadyClock::time_point::max()) {}

bool MemoryWatch::IsExceeded(SteadyClock::time_point now) {
  if (now < next_) return false;
  bool is_exceeded = UsesMore(first_, limit_bytes_);
  if (is_exceeded) {
    // A child between vfork and exec shows its parent's memory as its own.
    std::this_thread::sleep_for(kSecondLook);
    is_exceeded = UsesMore(first_, limit_bytes_);
  }
  const auto took = SteadyClock::now() - now;
  next_ = SteadyClock::now() + std::max<SteadyClock::duration>(kPeriod, kLeastRest * took);
  return is_exceeded;
}

}  // namespace ingot::sandbox
