#include "base/process_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

// jemalloc's control function (jemalloc(3)). Null in a program without jemalloc.
extern "C" int mallctl(const char* name, void* old_value, size_t* old_size, void* new_value, size_t new_size)
    __attribute__((weak));

namespace ingot::base {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Returns the number after `key` in a file such as /proc/meminfo or memory.stat, or -1 if there is no such key.
int64_t NumberAfter(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return -1;
}

int64_t KilobytesOf(const std::string& path, const std::string& key) {
  const int64_t kilobytes = NumberAfter(path, key);
  return kilobytes < 0 ? -1 : kilobytes * 1024;
}

// Returns the number in a file with a single number, or -1 if it is not a number, such as "max".
int64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

// The files for one cgroup version (Linux: admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* used;
  const char* cache;  // key in memory.stat for reclaimable file pages
};
constexpr GroupFiles kUnified = {"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file "};
constexpr GroupFiles kMemoryController = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                          "total_inactive_file "};

// Returns the smallest remaining amount in the group at `path` below the mount and in all groups above it. A container
// sees its own group as the mount root, regardless of the group's path, so the walk ends there.
int64_t LeftByGroups(const std::string& root, const GroupFiles& files, std::string path) {
  int64_t left = kUnlimited;
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::string folder = root + files.mount + path;
    const int64_t limit = NumberIn(folder + files.limit), used = NumberIn(folder + files.used);
    if (limit >= 0 && used >= 0) {
      const int64_t cache = std::max<int64_t>(0, NumberAfter(folder + "/memory.stat", files.cache));
      left = std::min(left, std::max<int64_t>(0, limit - std::max<int64_t>(0, used - cache)));
    }
    if (path.empty()) return left;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

// Reads /proc/self/cgroup, which has lines of HIERARCHY:CONTROLLERS:PATH. The unified hierarchy has no controllers.
int64_t LeftByControlGroups(const std::string& root) {
  std::string unified, controller;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") unified = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) controller = line.substr(second + 1);
  }
  return std::min(LeftByGroups(root, kUnified, unified), LeftByGroups(root, kMemoryController, controller));
}

int64_t LeftByAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const int64_t used = std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmSize:"));
  return std::max<int64_t>(0, static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kUnlimited)) - used);
}

}  // namespace

int64_t MachineMemoryLeft(const std::string& root) {
  const int64_t available = KilobytesOf(root + "/proc/meminfo", "MemAvailable:");
  return std::min(available < 0 ? kUnlimited : available, LeftByControlGroups(root));
}

int64_t AvailableMemory(int processes) { return std::min(MachineMemoryLeft("") / processes, LeftByAddressSpace()); }

int64_t ResidentMemory() { return std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmRSS:")); }

int64_t PeakMemory() { return std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmHWM:")); }

bool ResetPeakMemory() {
  if (mallctl != nullptr) {
    mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // MALLCTL_ARENAS_ALL
  } else {
    malloc_trim(0);
  }
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

void ReturnFreedMemory() {
  if (mallctl != nullptr) return;  // jemalloc returns pages on its own
  constexpr int kMin = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kMin);
  mallopt(M_TRIM_THRESHOLD, 4 * kMin);
}

}  // namespace ingot::base
