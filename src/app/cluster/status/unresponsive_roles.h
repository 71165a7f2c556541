// Detects roles on this machine that stop responding. A process that was stopped by a signal, frozen, or starved blocks
// other processes and cannot report it. Each role serves a Unix socket (metrics-NAME.sock). Any response shows that the
// role is alive and reports what it is waiting for (role_waits.h).
//
//   launcher or node's agent ──"GET /waits"──▶ RUN/sockets/metrics-NAME.sock     twice a second
//                 no answer for 5 s ──▶ terminal, log, `ingot status`: "trainer has not responded for 5 s: process 7 ..."
//                 "datapool"        ──▶ terminal, log, `ingot status`: "gateway waits for datapool"
//
// An unresponsive role is reported within 6 s. Its last response came at most kEvery (0.5 s) before the next request,
// the request times out after kTimeout (5 s), and it is checked every kEvery. `ingot status` also queries unresponsive
// roles, for at most 3 s.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/cluster/status/role_waits.h"
#include "app/cluster/status/status_endpoint.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

struct RoleSocket {
  std::string name, path;
};

class UnresponsiveRoles {
 public:
  static constexpr std::chrono::seconds kTimeout{5};
  // interval between requests, and between checks for the response
  static constexpr std::chrono::milliseconds kEvery{500};

  // `roles` returns the roles to query. If no process listens on a role's socket, the role is starting or has ended.
  // `report` receives a line when a role becomes unresponsive or responsive, and whenever ReportedWaits::faults
  // changes. Both are called on the thread that runs Poll or that Start created.
  UnresponsiveRoles(std::function<std::vector<RoleSocket>()> roles, std::function<void(const std::string&)> report,
                    const base::Clock& clock = base::Clock::Real())
      : roles_(std::move(roles)), report_(std::move(report)), clock_(clock) {}
  ~UnresponsiveRoles();
  UnresponsiveRoles(const UnresponsiveRoles&) = delete;
  UnresponsiveRoles& operator=(const UnresponsiveRoles&) = delete;

  // Checks every kEvery on its own thread until destroyed. Call at most once. Do not also call Poll.
  void Start();

  // Sends a request to every role without a pending one, and reads the responses that arrive within `wait`.
  void Poll(std::chrono::milliseconds wait);

  // Returns one entry per unresponsive role, with the problem as an error. Thread safe.
  std::vector<RoleStatus> Unresponsive();
  // Returns each role's waits and work, by name, as of its last response. Idle roles are omitted. Thread safe.
  std::map<std::string, ReportedWaits> Waits();

 private:
  struct Question {
    int fd = -1;  // -1 = no pending request
    pid_t process = 0;
    std::chrono::nanoseconds asked{0};
    bool reported = false;  // the role was reported as unresponsive
    std::string answer;
  };

  void Ask();
  void TakeAnswers(std::chrono::milliseconds wait);
  void ReportUnresponsive();
  // Ends the request, after a response or after the role has ended.
  void Close(const std::string& name, Question& question, bool answered);
  void NoteWaits(const std::string& name, const ReportedWaits& waits);

  const std::function<std::vector<RoleSocket>()> roles_;
  const std::function<void(const std::string&)> report_;
  const base::Clock& clock_;
  std::map<std::string, Question> questions_;  // used only by the thread that calls Poll
  base::Mutex mu_;
  std::map<std::string, Question> unresponsive_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ReportedWaits> waits_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::CondVar stopped_;
  std::thread thread_;
};

// Describes a process's state as reported by the system: "process 7 was stopped by a signal, ...". Empty = it has ended.
std::string DescribeProcess(pid_t process);

}  // namespace ingot::app
