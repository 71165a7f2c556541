// A server that speaks as S3 does (moto), for tests: one for the process, on a free port of the loopback interface.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include "test_paths.h"

namespace ingot::weights::testing {

class S3Server {
 public:
  // The server of this process; it is started by the first call and ends with the process.
  static S3Server& Get() {
    static S3Server server;
    return server;
  }

  static std::string Program() { return std::string(INGOT_SOURCE_DIR) + "/.venv-services/bin/moto_server"; }
  static bool Installed() { return std::filesystem::exists(Program()); }

  const std::string& url() const { return url_; }  // empty = it did not start
  // A name that no bucket of the server has.
  std::string NewBucket() { return "bucket-" + std::to_string(++buckets_); }

  ~S3Server() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove(log_, ignored);
  }

 private:
  S3Server() {
    log_ = std::filesystem::temp_directory_path().string() + "/ingot-moto-" + std::to_string(::getpid()) + ".log";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      const std::string program = Program();
      ::execl(program.c_str(), program.c_str(), "-p", "0", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    const std::regex running("Running on (http://127.0.0.1:[0-9]+)");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (url_.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::stringstream text;
      text << std::ifstream(log_).rdbuf();
      std::smatch match;
      const std::string all = text.str();
      if (std::regex_search(all, match, running)) url_ = match[1];
    }
  }

  std::string url_, log_;
  pid_t pid_ = -1;
  int buckets_ = 0;
};

}  // namespace ingot::weights::testing
