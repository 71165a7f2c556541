// Reports what a role waits for: the waits of its process (base/waits.h), and its rpcs to other roles (run_registry.h).
// Its socket's answer also says what it computes (base/work.h).
//
//   a thread of the role ──every kPause──▶ its log, its entry in the registry
//   launcher or node's agent ──GET /waits──▶ RUN/sockets/metrics-NAME.sock    (unresponsive_roles.h)
//
// A wait is reported within 6 seconds, on the terminal too: it has lasted kTimeout (3 s), or kCallTimeout (5 s) for
// rpcs, which may be slow on a busy machine; the thread checks every kPause (0.5 s), and the launcher asks every half
// second (UnresponsiveRoles::kEvery).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/waits.h"

namespace ingot::app {

// What a role waits for, joined by commas, and what it computes. Empty = nothing.
struct ReportedWaits {
  std::string faults;         // WaitKind::kFault, and rpcs
  std::string work;           // WaitKind::kWork
  std::string computes = {};  // base::Work::Describe

  bool operator==(const ReportedWaits&) const = default;
  bool empty() const { return faults.empty() && work.empty(); }  // waits for nothing
  std::string All() const;                                       // the waits
};

// The answer of a role's socket: a line for each field.
std::string PrintWaits(const ReportedWaits& waits);
ReportedWaits ParseWaits(std::string_view text);

// Thread safe.
class RoleWaits {
 public:
  static constexpr std::chrono::seconds kTimeout{3}, kCallTimeout{5};
  static constexpr std::chrono::milliseconds kPause{500};

  // The arguments outlive it.
  explicit RoleWaits(const base::Waits& waits = base::Waits::OfProcess(),
                     const base::Clock& clock = base::Clock::Real())
      : waits_(waits), clock_(clock) {}
  ~RoleWaits();
  RoleWaits(const RoleWaits&) = delete;
  RoleWaits& operator=(const RoleWaits&) = delete;

  // Checks every kPause, on its own thread, until the destructor. Called at most once.
  void Start();

  // Adds the rpcs that `calls` names, and calls `report` with each change of all waits; until Forget has returned.
  // Neither may call Follow.
  void Follow(std::function<std::vector<std::string>()> calls, std::function<void(const std::string&)> report);
  void Forget() { Follow(nullptr, nullptr); }

  // Finds the current waits, and logs a change.
  void Look();

  // The waits of the last Look.
  ReportedWaits Reported() const;

 private:
  const base::Waits& waits_;
  const base::Clock& clock_;
  base::Mutex following_mu_;  // taken before mu_, and held while one of the two runs
  std::function<std::vector<std::string>()> calls_ ABSL_GUARDED_BY(following_mu_);
  std::function<void(const std::string&)> report_ ABSL_GUARDED_BY(following_mu_);
  mutable base::Mutex mu_;
  ReportedWaits reported_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::CondVar stopped_;
  std::thread thread_;
};

}  // namespace ingot::app
