// An etcd cluster of a test: members on loopback, at free ports, with their files in a temporary folder.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/free_port.h"
#include "registry/grpc_etcd.h"

namespace ingot::registry::testing {

inline constexpr char kNoEtcd[] = "no etcd here: `scripts/setup.sh services` installs it";

// Whether the server and its command line are installed.
inline bool HasEtcd() { return std::system("command -v etcd >/dev/null && command -v etcdctl >/dev/null") == 0; }

using base::testing::FreePort;

class EtcdCluster {
 public:
  // `client_flags` go to every member, with clients by `scheme`.
  explicit EtcdCluster(int size, std::vector<std::string> client_flags = {}, std::string scheme = "http")
      : client_flags_(std::move(client_flags)), scheme_(std::move(scheme)) {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-etcd-XXXXXX";
    folder_ = token_ = ::mkdtemp(pattern.data());
    for (int i = 0; i < size; ++i) {
      clients_.push_back(absl::StrCat("127.0.0.1:", FreePort()));
      peers_.push_back(absl::StrCat("127.0.0.1:", FreePort()));
      pids_.push_back(0);
    }
    for (int i = 0; i < size; ++i) Start(i);
  }
  ~EtcdCluster() {
    for (size_t i = 0; i < pids_.size(); ++i) Kill(static_cast<int>(i));
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  // The members' addresses, beginning with member `first`.
  std::vector<std::string> endpoints(int first = 0) const {
    std::vector<std::string> rotated;
    for (size_t i = 0; i < clients_.size(); ++i) rotated.push_back(clients_[(first + i) % clients_.size()]);
    return rotated;
  }
  EtcdOptions options(int first = 0) const {
    EtcdOptions options;
    options.endpoints = endpoints(first);
    return options;
  }
  const std::string& folder() const { return folder_; }

  // Whether the cluster answers within 60 s.
  bool AwaitReady() const { return AwaitReady(options()); }
  static bool AwaitReady(const EtcdOptions& options) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!ConnectEtcd(options).ok()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  void Start(int member) {
    std::string initial;
    for (size_t i = 0; i < peers_.size(); ++i)
      absl::StrAppend(&initial, i == 0 ? "" : ",", "n", i, "=http://", peers_[i]);
    const std::string client = absl::StrCat(scheme_, "://", clients_[member]), peer = "http://" + peers_[member];
    std::vector<std::string> argv = {"etcd",
                                     "--name",
                                     absl::StrCat("n", member),
                                     "--data-dir",
                                     absl::StrCat(folder_, "/n", member),
                                     "--listen-client-urls",
                                     client,
                                     "--advertise-client-urls",
                                     client,
                                     "--listen-peer-urls",
                                     peer,
                                     "--initial-advertise-peer-urls",
                                     peer,
                                     "--initial-cluster",
                                     initial,
                                     "--initial-cluster-token",
                                     token_,
                                     "--initial-cluster-state",
                                     "new"};
    argv.insert(argv.end(), client_flags_.begin(), client_flags_.end());
    pids_[member] = Spawn(argv, absl::StrCat(folder_, "/log", member));
  }
  // Starts another cluster at the same addresses. REQUIRES: no member runs.
  void Replace() {
    token_ += "+";
    for (size_t i = 0; i < pids_.size(); ++i) {
      std::filesystem::remove_all(absl::StrCat(folder_, "/n", i));
      Start(static_cast<int>(i));
    }
  }
  // As the death of its machine.
  void Kill(int member) {
    if (pids_[member] <= 0) return;
    ::kill(pids_[member], SIGKILL);
    ::waitpid(pids_[member], nullptr, 0);
    pids_[member] = 0;
  }
  void Signal(int member, int signal) { ::kill(pids_[member], signal); }

  // The member that leads; -1 = none within 30 s.
  int Leader() const {
    for (int tries = 0; tries < 300; ++tries) {
      for (size_t i = 0; i < clients_.size(); ++i) {
        const std::string status = Control("endpoint status", static_cast<int>(i));
        if (status.find(", true, false,") != std::string::npos) return static_cast<int>(i);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return -1;
  }

  // The output of etcdctl.
  std::string Control(const std::string& command, int member = 0) const {
    const std::string line =
        absl::StrCat("ETCDCTL_API=3 etcdctl --dial-timeout=2s --command-timeout=2s --endpoints=", scheme_, "://",
                     clients_[member], " ", command, " 2>&1");
    std::string output;
    FILE* const pipe = ::popen(line.c_str(), "r");
    char bytes[512];
    while (pipe != nullptr && std::fgets(bytes, sizeof(bytes), pipe) != nullptr) output += bytes;
    if (pipe != nullptr) ::pclose(pipe);
    return output;
  }

 private:
  static pid_t Spawn(std::vector<std::string> argv, const std::string& log) {
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    if (std::freopen(log.c_str(), "a", stdout) == nullptr || std::freopen(log.c_str(), "a", stderr) == nullptr)
      ::_exit(126);
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }

  const std::vector<std::string> client_flags_;
  const std::string scheme_;
  std::string folder_;
  std::string token_;  // makes the cluster's id
  std::vector<std::string> clients_, peers_;
  std::vector<pid_t> pids_;  // 0 = does not run
};

}  // namespace ingot::registry::testing
