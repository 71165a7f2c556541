// The starts of the runners that open episodes. A runner that is started again names another incarnation. The one before is
// past for good: a late request of it is told apart from one more start. Remembers the kMostRunners runners that were seen
// last, with the last kMostPast past incarnations of each. Not thread safe: the gateway calls it under its lock.
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
    kSame,   // the newest one that was seen. Also an empty incarnation of a runner that was not seen before
    kNewer,  // it was not seen before, and is the newest from now on
    kPast,   // a newer one was seen since
  };
  // Notes a request of this incarnation.
  Start See(const std::string& runner, const std::string& incarnation);
  // The newest one that was seen; nullopt = none of this runner is remembered.
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
