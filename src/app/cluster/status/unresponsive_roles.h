// Watches whether the roles of this machine answer at all: a process that is stopped by a signal, frozen or starved
// makes others wait, and cannot report it. Each role has a socket file (metrics-NAME.sock); any answer shows that it is
// alive, and says what it waits for (role_waits.h).
//
//   launcher or node's agent ──"GET /waits"──▶ RUN/sockets/metrics-NAME.sock     twice a second
//                 no answer for 5 s ──▶ terminal, log, `ingot status`: "trainer gives no answer for 5 s: process 7 ..."
//                 "datapool"        ──▶ terminal, log, `ingot status`: "gateway waits for datapool"
//
// A role that becomes unresponsive is reported within 6 s: its last answer came less than kEvery (0.5 s) before the
// next question, which stays open for kTimeout (5 s), and is checked every kEvery. `ingot status` also asks
// unresponsive roles, for at most 3 s.
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
  static constexpr std::chrono::milliseconds kEvery{500};  // between two questions, and between two checks of one

  // `roles`: the roles to ask; if no process listens on a socket file, its role starts or has ended. `report` gets a
  // line when a role becomes unresponsive or answers again, and with each change of its waits that are faults. Both are
  // called by the thread of Look, or of Start.
  UnresponsiveRoles(std::function<std::vector<RoleSocket>()> roles, std::function<void(const std::string&)> report,
                    const base::Clock& clock = base::Clock::Real())
      : roles_(std::move(roles)), report_(std::move(report)), clock_(clock) {}
  ~UnresponsiveRoles();
  UnresponsiveRoles(const UnresponsiveRoles&) = delete;
  UnresponsiveRoles& operator=(const UnresponsiveRoles&) = delete;

  // Checks every kEvery, on its own thread, until the destructor. Called at most once; do not call Look as well.
  void Start();

  // Asks every role that has no open question, and takes the answers that come within `wait`.
  void Look(std::chrono::milliseconds wait);

  // A line for each role that is unresponsive, with what is wrong as an error. Thread safe.
  std::vector<RoleStatus> Unresponsive();
  // What each role waits for and computes by its last answer, by name; idle roles are left out. Thread safe.
  std::map<std::string, ReportedWaits> Waits();

 private:
  struct Question {
    int fd = -1;  // -1 = none is open
    pid_t process = 0;
    std::chrono::nanoseconds asked{0};
    bool reported = false;  // that the role is unresponsive
    std::string answer;
  };

  void Ask();
  void TakeAnswers(std::chrono::milliseconds wait);
  void ReportUnresponsive();
  // The question is over, by its answer or by its role's end.
  void Close(const std::string& name, Question& question, bool answered);
  void NoteWaits(const std::string& name, const ReportedWaits& waits);

  const std::function<std::vector<RoleSocket>()> roles_;
  const std::function<void(const std::string&)> report_;
  const base::Clock& clock_;
  std::map<std::string, Question> questions_;  // of the looking thread
  base::Mutex mu_;
  std::map<std::string, Question> unresponsive_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ReportedWaits> waits_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::CondVar stopped_;
  std::thread thread_;
};

// "process 7 is stopped by a signal, ..." from the system's record of it. Empty: it has ended.
std::string DescribeProcess(pid_t process);

}  // namespace ingot::app
