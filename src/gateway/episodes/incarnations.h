// Tracks the incarnations (starts) of the runners that open episodes. A restarted runner sends a new incarnation, which
// permanently ends the old one. Its late requests do not count as a start. Remembers the most recent kMaxRunners
// runners and each runner's last kMaxPast incarnations. Not thread safe: the gateway holds a lock while calling it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

namespace ingot::gateway {

class Incarnations {
 public:
  static constexpr size_t kMaxRunners = 1024;
  static constexpr size_t kMaxPast = 16;

  enum class Start {
    kSame,   // the newest incarnation, or an empty incarnation from an unknown runner
    kNewer,  // a new incarnation, which is now the newest
    kPast,   // a newer incarnation has been seen since
  };
  // Records a request from this incarnation.
  Start See(const std::string& runner, const std::string& incarnation);
  // Returns the newest incarnation seen, or nullopt if the runner is not remembered.
  std::optional<std::string> NewestOf(const std::string& runner) const;

  size_t runners() const { return runners_.size(); }

 private:
  struct Runner {
    std::string newest;
    std::deque<std::string> past;  // oldest first
    int64_t seen = 0;              // index of its last request
  };
  void ForgetOne();

  std::unordered_map<std::string, Runner> runners_;
  int64_t requests_ = 0;
};

}  // namespace ingot::gateway
