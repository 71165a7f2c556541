// Reports what a role waits for: the waits of its process (base/waits.h), and its rpcs to other roles (run_registry.h).
// The response on its socket also describes its current work (base/work.h).
//
//   a thread of the role ──every kPause──▶ its log, its entry in the registry
//   launcher or node's agent ──GET /waits──▶ RUN/sockets/metrics-NAME.sock    (unresponsive_roles.h)
//
// A `Wait` that lasts kTimeout (3 s) is reported, and so is an rpc after kCallTimeout (5 s), because rpcs can be slow
// on a busy machine. The thread checks every kPause (0.5 s), and the launcher polls every half second
// (UnresponsiveRoles::kEvery). So a report takes at most 6 seconds, including on the terminal.
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

// A role's waits, joined by commas, and its current work. Empty = none.
struct ReportedWaits {
  std::string faults;         // WaitKind::kFault, and rpcs
  std::string work;           // WaitKind::kWork
  std::string computes = {};  // base::Work::Describe

  bool operator==(const ReportedWaits&) const = default;
  bool empty() const { return faults.empty() && work.empty(); }  // true if the role waits for nothing
  std::string All() const;                                       // all waits
};

// Formats the response that a role sends on its socket, one line per field.
std::string PrintWaits(const ReportedWaits& waits);
ReportedWaits ParseWaits(std::string_view text);

// Thread safe.
class RoleWaits {
 public:
  static constexpr std::chrono::seconds kTimeout{3}, kCallTimeout{5};
  static constexpr std::chrono::milliseconds kPause{500};

  // REQUIRES: the arguments outlive it.
  explicit RoleWaits(const base::Waits& waits = base::Waits::OfProcess(),
                     const base::Clock& clock = base::Clock::Real())
      : waits_(waits), clock_(clock) {}
  ~RoleWaits();
  RoleWaits(const RoleWaits&) = delete;
  RoleWaits& operator=(const RoleWaits&) = delete;

  // Checks every kPause on its own thread until destroyed. Call at most once.
  void Start();

  // Also reports the rpcs that `calls` returns, and calls `report` whenever the result changes. Neither is called after
  // Forget returns. The callbacks must not call Follow.
  void Follow(std::function<std::vector<std::string>()> calls, std::function<void(const std::string&)> report);
  void Forget() { Follow(nullptr, nullptr); }

  // Checks what the role is waiting for and logs any change.
  void Poll();

  // Returns the result of the last Poll.
  ReportedWaits Reported() const;

 private:
  const base::Waits& waits_;
  const base::Clock& clock_;
  base::Mutex following_mu_;  // acquired before mu_, and held while either callback runs
  std::function<std::vector<std::string>()> calls_ ABSL_GUARDED_BY(following_mu_);
  std::function<void(const std::string&)> report_ ABSL_GUARDED_BY(following_mu_);
  mutable base::Mutex mu_;
  ReportedWaits reported_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::CondVar stopped_;
  std::thread thread_;
};

}  // namespace ingot::app
