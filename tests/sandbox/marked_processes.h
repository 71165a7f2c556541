// Processes that a test started and can find again, in whatever PID namespace they are: `sleep` for an odd time.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace ingot::sandbox {

class MarkedProcesses {
 public:
  MarkedProcesses() {
    static int next = 0;
    sleep_ = "100000." + std::to_string(getpid()) + "0" + std::to_string(next++);
  }

  // The argument of sleep(1).
  const std::string& sleep() const { return sleep_; }

  // Those that run. A zombie has no command line.
  int Count() const {
    int count = 0;
    ForEach([&count](pid_t) { ++count; });
    return count;
  }

  // Of one that runs, in this PID namespace; 0 = none runs.
  pid_t Any() const {
    pid_t found = 0;
    ForEach([&found](pid_t pid) { found = pid; });
    return found;
  }

  // The process of Ingot's that started one, perhaps through others; 0 = none runs.
  pid_t FirstProcess() const {
    for (pid_t pid = Any(); pid > 1;) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
      std::string number, name, state;
      pid_t parent = 0;
      file >> number >> name >> state >> parent;
      if (name == "(ingot-sandbox)") return pid;
      pid = parent;
    }
    return 0;
  }

  // False: there are not as many within 20 s.
  bool Await(int count) const {
    return AwaitThat([&] { return Count() >= count; });
  }
  bool AwaitNone() const {
    return AwaitThat([&] { return Count() == 0; });
  }

 private:
  template <typename Condition>
  static bool AwaitThat(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  template <typename Visit>
  void ForEach(Visit visit) const {
    DIR* const proc = opendir("/proc");
    while (const dirent* const entry = readdir(proc)) {
      if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
      std::ifstream file(std::string("/proc/") + entry->d_name + "/cmdline");
      std::string line;
      std::getline(file, line);  // fails where the process has just ended
      if (line == std::string("sleep") + '\0' + sleep_ + '\0') visit(static_cast<pid_t>(std::stoi(entry->d_name)));
    }
    closedir(proc);
  }

  std::string sleep_;
};

}  // namespace ingot::sandbox
