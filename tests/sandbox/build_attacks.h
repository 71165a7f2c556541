// Runs attacks/build_attack.cc: what it attacks, and what it said.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sandbox/loopback_server.h"

namespace ingot::sandbox {

// Things of the machine that a build must not reach.
class AttackTargets {
 public:
  explicit AttackTargets(const std::string& folder) : secret_(folder + "/secret"), outside_(folder + "/outside") {
    std::ofstream(secret_) << "a secret";
    chmod(secret_.c_str(), 0600);
    victim_ = fork();
    if (victim_ == 0) {
      while (true) pause();
    }
  }
  ~AttackTargets() {
    kill(victim_, SIGKILL);
    waitpid(victim_, nullptr, 0);
  }
  std::vector<std::string> Arguments() const {
    struct stat info{};
    stat(secret_.c_str(), &info);
    return {secret_, outside_, absl::StrCat(victim_), absl::StrCat(server_.port()), absl::StrCat(info.st_dev)};
  }
  const LoopbackServer& server() const { return server_; }
  void ExpectAsTheyWere() const {
    EXPECT_EQ(waitpid(victim_, nullptr, WNOHANG), 0) << "the process was ended";
    EXPECT_EQ(server_.connections(), 0);
    EXPECT_NE(access(outside_.c_str(), F_OK), 0);
    EXPECT_NE(access("/usr/bin/ingot-attack", F_OK), 0);
  }

 private:
  const std::string secret_, outside_;
  const LoopbackServer server_{"a service of the machine"};
  pid_t victim_ = -1;
};

// The outcome of each attack, "done" or "refused: ..".
inline std::map<std::string, std::string> OutcomesOf(const std::string& file) {
  std::map<std::string, std::string> outcomes;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = std::min(line.rfind(" done"), line.rfind(" refused"));
    if (end != std::string::npos) outcomes[line.substr(0, end)] = line.substr(end + 1);
  }
  return outcomes;
}

// All were denied except the chroot, which leads to the sandbox's own root folder.
inline void ExpectRejected(const std::map<std::string, std::string>& outcomes) {
  EXPECT_GT(outcomes.size(), 30u) << "it did not run to its end";
  for (const auto& [name, outcome] : outcomes) {
    if (name == "chroot") continue;
    EXPECT_TRUE(outcome.starts_with("refused")) << name << " " << outcome;
  }
}

}  // namespace ingot::sandbox
