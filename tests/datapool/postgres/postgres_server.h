// A test's PostgreSQL server, or a standby of one: its files are in a temporary folder, and it listens only on a socket
// there.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datapool/postgres/postgres_servers.h"

namespace ingot::datapool::testing {

// The folder of initdb and postgres; empty = not installed (scripts/setup.sh services installs it).
inline std::string PostgresPrograms() {
  std::error_code error;
  std::string newest;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    const std::string programs = version.path().string() + "/bin";
    if (std::filesystem::exists(programs + "/initdb") && programs > newest) newest = programs;
  }
  return newest;
}

// A connection to the server of `url` that writes.
inline std::unique_ptr<PostgresConnection> ConnectTo(const std::string& url) {
  return PostgresServers::Make({.url = url, .answer_timeout = std::chrono::seconds(30), .watch = false})
      .value()
      ->ConnectLeader()
      .value();
}

class PostgresServer {
 public:
  // `disk_mib`: the size of its own disk in memory, which requires root. 0 = the temporary folder's disk.
  explicit PostgresServer(std::vector<std::string> settings = {}, int disk_mib = 0)
      : settings_(std::move(settings)), own_disk_(disk_mib > 0) {
    MakeFolder(disk_mib);
    ok_ = ok_ && Wait(Spawn({PostgresPrograms() + "/initdb", "-D", data(), "-U", "ingot", "--auth=trust", "--no-sync",
                             "--encoding=UTF8", "--locale=C"})) == 0;
    if (ok_) Start();
  }
  // A standby of `primary`, called `name` there. It has the primary's current settings.
  PostgresServer(const PostgresServer& primary, const std::string& name) : own_disk_(false) {
    MakeFolder(0);
    ok_ = ok_ && Wait(Spawn({PostgresPrograms() + "/pg_basebackup", "-d", primary.url() + " application_name=" + name,
                             "-D", data(), "-R", "-X", "stream", "-c", "fast", "--no-sync"})) == 0;
    if (ok_) Start();
  }
  ~PostgresServer() {
    Stop(SIGQUIT);
    if (own_disk_) Shell("umount --lazy " + folder_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  bool ok() const { return ok_; }
  std::string url() const { return "host=" + folder_ + " user=ingot dbname=postgres"; }
  std::string data() const { return folder_ + "/data"; }
  std::string folder() const { return folder_; }
  // Whether the server's process has exited by itself, as it does if it cannot write its log.
  bool HasEnded() {
    if (server_ > 0 && ::waitpid(server_, nullptr, WNOHANG) == server_) server_ = 0;
    return server_ == 0;
  }

  void Start() {
    std::vector<std::string> argv = {
        PostgresPrograms() + "/postgres", "-D", data(), "-k", folder_, "-c", "listen_addresses="};
    for (const std::string& setting : settings_) {
      argv.insert(argv.end(), {"-c", setting});
    }
    server_ = Spawn(argv);
    const std::string ready = PostgresPrograms() + "/pg_isready -q -h " + folder_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!(ok_ = Shell(ready)) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  // Sends `signal` to all processes of the server: SIGSTOP pauses it, SIGCONT resumes it.
  void Signal(int signal) const {
    Shell("kill -" + std::to_string(signal) + " " + std::to_string(server_) + " $(pgrep -P " + std::to_string(server_) +
          ")");
  }
  // Returns once the standby writes.
  void Promote() { ok_ = ok_ && Wait(Spawn({PostgresPrograms() + "/pg_ctl", "-D", data(), "-w", "promote"})) == 0; }
  // SIGQUIT ends the server at once, as a crash does.
  void Stop(int signal) {
    if (server_ <= 0) return;
    ::kill(server_, signal);
    Wait(server_);
    server_ = 0;
  }

 private:
  void MakeFolder(int disk_mib) {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-pg-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    if (own_disk_) ok_ = Shell("mount -t tmpfs -o size=" + std::to_string(disk_mib) + "m tmpfs " + folder_);
    // The server refuses to run as root.
    if (::getuid() == 0) ok_ = ok_ && Shell("chown postgres " + folder_);
  }

  static bool Shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

  static int Wait(pid_t child) {
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }

  pid_t Spawn(std::vector<std::string> argv) const {
    if (::getuid() == 0)
      argv.insert(argv.begin(),
                  {"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=QUIT"});
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string log = folder_ + "/log";
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (std::freopen(log.c_str(), "a", stdout) == nullptr || std::freopen(log.c_str(), "a", stderr) == nullptr)
      _exit(126);
    ::execv(pointers[0], pointers.data());
    _exit(127);
  }

  const std::vector<std::string> settings_;
  const bool own_disk_;
  std::string folder_;
  pid_t server_ = 0;
  bool ok_ = true;
};

}  // namespace ingot::datapool::testing
