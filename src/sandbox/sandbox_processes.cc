#include "sandbox/sandbox_processes.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

// Short-lived processes may be found twice. No sandbox has this many processes.
constexpr size_t kMaxProcesses = 65536;

// Adds the children of each thread of `pid`. Some may be missed while others end, and a later call finds them.
void AddChildren(pid_t pid, std::vector<pid_t>& found) {
  for (const pid_t thread : ThreadsOf(pid)) {
    std::ifstream children(absl::StrCat("/proc/", pid, "/task/", thread, "/children"));
    for (pid_t child; found.size() < kMaxProcesses && children >> child;) found.push_back(child);
  }
}

}  // namespace

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads = {pid};
  std::error_code error;
  for (fs::directory_iterator it(absl::StrCat("/proc/", pid, "/task"), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread > 0 && thread != pid) threads.push_back(thread);
  }
  return threads;
}

std::vector<pid_t> ProcessesOf(pid_t first) {
  std::vector<pid_t> found = {first};
  for (size_t i = 0; i < found.size(); ++i) AddChildren(found[i], found);
  // If a child's thread has ended in the meantime, it is also found with the next thread.
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace ingot::sandbox
