// The starts of the runners that open episodes. A restarted runner names a new incarnation, and the old incarnation is
// over for good: its late requests do not look like another start. Remembers the last kMostRunners runners seen, with
// the last kMostPast past incarnations of each. Not thread safe: the gateway calls it under its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

namespace ingot::gateway {

class Incarnations {
 public:
  static constexpr size_t kMostRunners = 1024;
  static constexpr size_t kMostPast = 16;

  enum class Start {
    kSame,   // the newest incarnation seen. Also an empty incarnation of a runner that was not seen before
    kNewer,  // it was not seen before, and is now the newest
    kPast,   // a newer incarnation was seen since
  };
  // Notes a request of this incarnation.
  Start See(const std::string& runner, const std::string& incarnation);
  // The newest incarnation seen; nullopt = the runner is not remembered.
  std::optional<std::string> NewestOf(const std::string& runner) const;

  size_t runners() const { return runners_.size(); }

 private:
  struct Runner {
    std::string newest;
    std::deque<std::string> past;  // the oldest first
    int64_t seen = 0;              // the number of its last request
  };
  void ForgetOne();

  std::unordered_map<std::string, Runner> runners_;
  int64_t requests_ = 0;
};

}  // namespace ingot::gateway
