#include "app/cluster/status/unresponsive_roles.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "http/unix_socket.h"

namespace ingot::app {
namespace {

// half of the interval is for reading answers, and half is for sleeping
constexpr std::chrono::milliseconds kPause = UnresponsiveRoles::kEvery / 2;
constexpr size_t kMaxBytes = 1 << 16;  // maximum size of an answer

int64_t Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

}  // namespace

std::string DescribeProcess(pid_t process) {
  const absl::StatusOr<std::string> stat = base::ReadFile(absl::StrCat("/proc/", process, "/stat"));
  const size_t name_end = stat.ok() ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) return "";
  const std::string who = absl::StrCat("process ", process);
  switch ((*stat)[name_end + 2]) {
    case 'T':
    case 't':
      return absl::StrCat(who, " was stopped by a signal; `kill -CONT ", process, "` resumes it");
    case 'D':
      return who + " is waiting for a disk or a network file system";
    case 'Z':
      return "";
    default:
      return who + " is running or frozen; it may lack CPU time or memory";
  }
}

UnresponsiveRoles::~UnresponsiveRoles() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  for (auto& [name, question] : questions_) {
    if (question.fd >= 0) close(question.fd);
  }
}

void UnresponsiveRoles::Start() {
  thread_ = std::thread([this] {
    while (true) {
      Poll(kPause);
      base::MutexLock lock(mu_);
      const std::chrono::nanoseconds next = clock_.Now() + kPause;
      while (!stopping_ && clock_.WaitUntil(stopped_, mu_, next)) {
      }
      if (stopping_) return;
    }
  });
}

void UnresponsiveRoles::Poll(std::chrono::milliseconds wait) {
  Ask();
  TakeAnswers(wait);
  ReportUnresponsive();
}

void UnresponsiveRoles::Ask() {
  std::set<std::string> names;
  for (const RoleSocket& role : roles_()) {
    names.insert(role.name);
    Question& question = questions_[role.name];
    if (question.fd >= 0) continue;
    const absl::StatusOr<int> fd = http::ConnectUnix(role.path);
    if (!fd.ok()) {
      NoteWaits(role.name, {});
      continue;
    }
    constexpr std::string_view kRequest = "GET /waits HTTP/1.1\r\nHost: run\r\nConnection: close\r\n\r\n";
    question = {.fd = *fd, .process = http::ListenerOf(*fd), .asked = clock_.Now(), .reported = false, .answer = ""};
    if (send(*fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) Close(role.name, question, false);
  }
  for (auto& [name, question] : questions_) {  // roles that moved to another machine
    if (question.fd >= 0 && !names.contains(name)) Close(name, question, false);
  }
}

void UnresponsiveRoles::TakeAnswers(std::chrono::milliseconds wait) {
  const auto until = std::chrono::steady_clock::now() + wait;
  while (true) {
    std::vector<pollfd> open;
    std::vector<std::string> names;
    for (const auto& [name, question] : questions_) {
      if (question.fd < 0) continue;
      open.push_back({.fd = question.fd, .events = POLLIN, .revents = 0});
      names.push_back(name);
    }
    if (open.empty()) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int ready = poll(open.data(), open.size(), std::max<int>(static_cast<int>(left.count()), 0));
    if (ready <= 0) return;
    for (size_t i = 0; i < open.size(); ++i) {
      if (open[i].revents == 0) continue;
      Question& question = questions_[names[i]];
      std::array<char, 4096> bytes = {};
      const ssize_t got = recv(open[i].fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) question.answer.append(bytes.data(), static_cast<size_t>(got));
      if (got > 0 && question.answer.size() < kMaxBytes) continue;
      Close(names[i], question, !question.answer.empty());
    }
  }
}

void UnresponsiveRoles::Close(const std::string& name, Question& question, bool answered) {
  close(question.fd);
  question.fd = -1;
  constexpr std::string_view kGood = "HTTP/1.1 200", kEnd = "\r\n\r\n";
  const size_t end = question.answer.find(kEnd);
  const bool reports = answered && question.answer.starts_with(kGood) && end != std::string::npos;
  NoteWaits(name, reports ? ParseWaits(std::string_view(question.answer).substr(end + kEnd.size())) : ReportedWaits());
  if (!std::exchange(question.reported, false)) return;
  {
    base::MutexLock lock(mu_);
    unresponsive_.erase(name);
  }
  const int64_t seconds = Seconds(clock_.Now() - question.asked);
  // The supervisor reports when a process ends.
  if (answered) report_(absl::StrCat(name, " responds again, after ", seconds, " s"));
}

void UnresponsiveRoles::NoteWaits(const std::string& name, const ReportedWaits& waits) {
  std::string before;
  {
    base::MutexLock lock(mu_);
    ReportedWaits& noted = waits_[name];
    before = std::exchange(noted, waits).faults;
  }
  if (waits.faults == before) return;
  report_(absl::StrCat(name, " waits for ", waits.faults.empty() ? "nothing now" : waits.faults));
}

void UnresponsiveRoles::ReportUnresponsive() {
  for (auto& [name, question] : questions_) {
    const std::chrono::nanoseconds silence = clock_.Now() - question.asked;
    if (question.fd < 0 || question.reported || silence < kTimeout) continue;
    question.reported = true;
    {
      base::MutexLock lock(mu_);
      unresponsive_[name] = question;
    }
    const std::string what = DescribeProcess(question.process);
    report_(
        absl::StrCat(name, " has not responded for ", Seconds(silence), " s: ", what.empty() ? "it has ended" : what));
  }
}

std::vector<RoleStatus> UnresponsiveRoles::Unresponsive() {
  std::vector<RoleStatus> statuses;
  base::MutexLock lock(mu_);
  for (const auto& [name, question] : unresponsive_) {
    const std::string what = DescribeProcess(question.process);
    statuses.push_back({name, "-",
                        absl::UnavailableError(absl::StrCat("no answer for ", Seconds(clock_.Now() - question.asked),
                                                            " s: ", what.empty() ? "it has ended" : what))});
  }
  return statuses;
}

std::map<std::string, ReportedWaits> UnresponsiveRoles::Waits() {
  std::map<std::string, ReportedWaits> all;
  base::MutexLock lock(mu_);
  for (const auto& [name, waits] : waits_) {
    if (waits != ReportedWaits() && !unresponsive_.contains(name)) all[name] = waits;
  }
  return all;
}

}  // namespace ingot::app
