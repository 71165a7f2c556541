#include "base/process_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace ingot::base {
namespace {

// The number behind `key` of a file like /proc/meminfo, in bytes; -1: not there.
int64_t KilobytesOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoll(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return -1;
}

// A file that holds one number; -1: none ("max").
int64_t NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

int64_t AvailableMemory() {
  int64_t available = KilobytesOf("/proc/meminfo", "MemAvailable:");
  if (available < 0) available = std::numeric_limits<int64_t>::max();
  const int64_t limit = NumberIn("/sys/fs/cgroup/memory.max"), used = NumberIn("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0) available = std::min(available, std::max<int64_t>(0, limit - used));
  return available;
}

int64_t ResidentMemory() { return std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmRSS:")); }

int64_t PeakMemory() { return std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmHWM:")); }

bool ResetPeakMemory() {
  malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

void ReturnFreedMemory() {
  constexpr int kLeast = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLeast);
  mallopt(M_TRIM_THRESHOLD, 4 * kLeast);
}

}  // namespace ingot::base
