// Watches whether the roles of this machine answer at all: a process that is stopped by a signal, frozen or starved makes
// others wait, and cannot say so itself. Each role has a socket file (metrics-NAME.sock); an answer of any kind shows that
// it lives.
//
//   launcher or node's agent ──"GET /"──▶ RUN/sockets/metrics-NAME.sock     once a second
//                 no answer for 5 s ──▶ terminal, log, `ingot status`: "trainer gives no answer for 5 s: process 7 is stopped"
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/status_endpoint.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::app {

struct RoleSocket {
  std::string name, path;
};

class SilentRoles {
 public:
  static constexpr std::chrono::seconds kPatience{5};

  // `roles`: those to ask; one whose socket file has no listener starts, or has ended, and is not silent. `tell` gets a line
  // when a role falls silent and when it answers again. Both are called by the thread of Look, or of Start.
  SilentRoles(std::function<std::vector<RoleSocket>()> roles, std::function<void(const std::string&)> tell,
              const base::Clock& clock = base::Clock::Real())
      : roles_(std::move(roles)), tell_(std::move(tell)), clock_(clock) {}
  ~SilentRoles();
  SilentRoles(const SilentRoles&) = delete;
  SilentRoles& operator=(const SilentRoles&) = delete;

  // Looks twice a second, on a thread of its own, until the destructor. Called at most once, and no Look beside it.
  void Start();

  // Asks every role that owes no answer, and takes the answers that come within `wait`.
  void Look(std::chrono::milliseconds wait);

  // A line for each role that is silent, with what is wrong as an error. Thread safe.
  std::vector<RoleStatus> Silent();

 private:
  struct Question {
    int fd = -1;  // -1 = none is open
    pid_t process = 0;
    std::chrono::nanoseconds asked{0};
    bool told = false;  // that the role is silent
  };

  void Ask();
  void TakeAnswers(std::chrono::milliseconds wait);
  void TellSilence();
  void Close(const std::string& name, Question& question, bool answered);

  const std::function<std::vector<RoleSocket>()> roles_;
  const std::function<void(const std::string&)> tell_;
  const base::Clock& clock_;
  std::map<std::string, Question> questions_;  // of the looking thread
  base::Mutex mu_;
  std::map<std::string, Question> silent_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::CondVar stopped_;
  std::thread thread_;
};

// "process 7 is stopped by a signal, ..." from the system's record of it. Empty: it has ended.
std::string DescribeProcess(pid_t process);

}  // namespace ingot::app
