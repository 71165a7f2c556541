#include "execution/guest_agent/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "execution/guest_agent/link.h"

namespace ingot::execution::guest_agent {
namespace {

constexpr FrameKind kKinds[3] = {FrameKind::kOutput, FrameKind::kErrors, FrameKind::kNotes};
constexpr size_t kMaxLeftBehind = 256;

struct Plan {
  StartFacts facts;
  const char* folder = nullptr;
  std::vector<char*> arguments, variables;
};

bool ReadPlan(std::string_view payload, Plan& plan) {
  if (payload.size() < sizeof(plan.facts)) return false;
  memcpy(&plan.facts, payload.data(), sizeof(plan.facts));
  payload.remove_prefix(sizeof(plan.facts));
  if (plan.facts.arguments == 0 || !TakeString(payload, plan.folder)) return false;
  const auto take = [&payload](uint32_t count, std::vector<char*>& strings) {
    const char* text = nullptr;
    for (uint32_t i = 0; i < count; ++i) {
      if (!TakeString(payload, text)) return false;
      strings.push_back(const_cast<char*>(text));
    }
    strings.push_back(nullptr);
    return true;
  };
  return take(plan.facts.arguments, plan.arguments) && take(plan.facts.variables, plan.variables);
}

void Limit(__rlimit_resource resource, uint64_t value) {
  if (value == 0) return;
  const rlimit limit{value, value};
  setrlimit(resource, &limit);
}

// One process's pipes. [0] is the read end; -1 = none.
struct Pipes {
  int in[2] = {-1, -1}, out[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, failure[2] = {-1, -1};

  bool Make(uint32_t flags) {
    bool made = pipe2(failure, O_CLOEXEC) == 0 && pipe2(out[0], O_CLOEXEC) == 0 && pipe2(out[1], O_CLOEXEC) == 0;
    if ((flags & kHasNotes) != 0) made = made && pipe2(out[2], O_CLOEXEC) == 0;
    if ((flags & kHasInput) != 0) made = made && pipe2(in, O_CLOEXEC) == 0;
    return made;
  }
  void CloseAll() {
    for (int(&pair)[2] : {std::ref(in), std::ref(out[0]), std::ref(out[1]), std::ref(out[2]), std::ref(failure)}) {
      for (int& fd : pair) {
        if (fd >= 0) close(fd);
        fd = -1;
      }
    }
  }
};

[[noreturn]] void Fail(const Pipes& pipes, char step) {
  const int failed[2] = {errno, step};
  [[maybe_unused]] const ssize_t sent = write(pipes.failure[1], failed, sizeof(failed));
  _exit(127);
}

[[noreturn]] void RunChild(const Plan& plan, const Pipes& pipes) {
  setsid();
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int stdio[4] = {pipes.in[0] >= 0 ? pipes.in[0] : null, pipes.out[0][1], pipes.out[1][1], pipes.out[2][1]};
  // First duplicates the pipes above the targets, because a pipe's number may be another pipe's target.
  int copies[4] = {-1, -1, -1, -1};
  for (int i = 0; i < 4; ++i) {
    if (stdio[i] >= 0) copies[i] = fcntl(stdio[i], F_DUPFD_CLOEXEC, 10);
  }
  const int failure = fcntl(pipes.failure[1], F_DUPFD_CLOEXEC, 10);
  Pipes kept;
  kept.failure[1] = failure;
  for (int i = 0; i < 4; ++i) {
    if (copies[i] >= 0 && dup2(copies[i], i) < 0) Fail(kept, 's');
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (plan.folder[0] != 0 && chdir(plan.folder) != 0) Fail(kept, 'f');
  Limit(RLIMIT_AS, plan.facts.memory_bytes);
  Limit(RLIMIT_CPU, plan.facts.cpu_seconds);
  execvpe(plan.arguments[0], plan.arguments.data(), plan.variables.data());
  Fail(kept, 'e');
}

int64_t Nanoseconds(const timeval& time) { return (int64_t{time.tv_sec} * 1'000'000 + time.tv_usec) * 1000; }

// Sets PATH from the plan, because execvpe reads it from this process.
void TakePath(const Plan& plan) {
  const char* path = "/usr/local/bin:/usr/bin:/bin";
  for (const char* const variable : plan.variables) {
    if (variable != nullptr && strncmp(variable, "PATH=", 5) == 0) path = variable + 5;
  }
  setenv("PATH", path, 1);
}

}  // namespace

void Processes::Start(const FrameHeader& header, std::string_view payload) {
  Plan plan;
  if (!ReadPlan(payload, plan)) return Send(FrameKind::kRejected, header.id, EINVAL, "the message");
  Pipes pipes;
  const bool made = pipes.Make(header.number);
  TakePath(plan);
  const pid_t pid = made ? fork() : -1;
  if (pid == 0) RunChild(plan, pipes);
  if (pid < 0) {
    const auto error = static_cast<uint32_t>(errno);
    pipes.CloseAll();
    return Send(FrameKind::kRejected, header.id, error, made ? "a new process" : "pipes");
  }
  close(pipes.failure[1]);
  pipes.failure[1] = -1;
  int failed[2] = {0, 0};
  ssize_t got;
  do got = read(pipes.failure[0], failed, sizeof(failed));
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    waitpid(pid, nullptr, 0);
    pipes.CloseAll();
    return Send(FrameKind::kRejected, header.id, static_cast<uint32_t>(failed[0]),
                failed[1] == 'f' ? "the working folder" : "the program");
  }
  Process& process = processes_[header.id];
  process.pid = pid;
  process.in = std::exchange(pipes.in[1], -1);
  for (int i = 0; i < 3; ++i) process.out[i] = std::exchange(pipes.out[i][0], -1);
  for (const int fd : {process.in, process.out[0], process.out[1], process.out[2]}) {
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  pipes.CloseAll();
  Send(FrameKind::kStarted, header.id, static_cast<uint32_t>(pid), "");
}

void Processes::HandleRequest(const FrameHeader& header, std::string_view payload) {
  if (header.kind == FrameKind::kStart) return Start(header, payload);
  const auto found = processes_.find(header.id);
  if (found == processes_.end()) return;
  Process& process = found->second;
  switch (header.kind) {
    case FrameKind::kInput:
      process.pending += payload;
      return Feed(header.id, process);
    case FrameKind::kCloseInput:
      process.closes_input = true;
      return Feed(header.id, process);
    case FrameKind::kSignal:
      kill(-process.pid, static_cast<int>(header.number));
      return;
    case FrameKind::kCredit:
      process.window += header.number;
      return;
    default:
      return;
  }
}

void Processes::Feed(uint32_t id, Process& process) {
  const ssize_t wrote =
      process.in < 0 || process.pending.empty() ? 0 : write(process.in, process.pending.data(), process.pending.size());
  const bool broken = wrote < 0 && errno != EAGAIN && errno != EINTR;
  // If the process has no stdin or has closed it, input counts as accepted and is dropped.
  const size_t taken =
      process.in < 0 || broken ? process.pending.size() : static_cast<size_t>(std::max<ssize_t>(wrote, 0));
  if (taken > 0) Send(FrameKind::kTaken, id, static_cast<uint32_t>(taken), "");
  process.pending.erase(0, taken);
  if (process.in >= 0 && (broken || (process.closes_input && process.pending.empty()))) {
    close(process.in);
    process.in = -1;
  }
}

void Processes::Forward(uint32_t id, Process& process, int pipe, int64_t most) {
  char buffer[32768];
  while (most > 0 && process.out[pipe] >= 0) {
    const ssize_t got = read(process.out[pipe], buffer, static_cast<size_t>(std::min<int64_t>(most, sizeof(buffer))));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      close(process.out[pipe]);
      process.out[pipe] = -1;
      return;
    }
    Send(kKinds[pipe], id, 0, std::string_view(buffer, static_cast<size_t>(got)));
    process.window -= got + kFrameCost;
    most -= got;
  }
}

void Processes::Finish(uint32_t id, Process& process, int status, const EndFacts& facts) {
  for (int i = 0; i < 3; ++i) {
    int there = 0;
    // Does not read to the end of the pipe, because a daemon that has it open may write forever.
    if (process.out[i] >= 0 && ioctl(process.out[i], FIONREAD, &there) == 0) Forward(id, process, i, there);
    if (process.out[i] < 0) continue;
    if (left_behind_.size() < kMaxLeftBehind) {
      left_behind_.push_back(process.out[i]);
    } else {
      close(process.out[i]);
    }
  }
  if (process.in >= 0) close(process.in);
  if (!process.pending.empty()) Send(FrameKind::kTaken, id, static_cast<uint32_t>(process.pending.size()), "");
  Send(FrameKind::kEnded, id, static_cast<uint32_t>(status),
       std::string_view(reinterpret_cast<const char*>(&facts), sizeof(facts)));
}

void Processes::Reap() {
  int status = 0;
  rusage usage;
  pid_t pid;
  while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
    const auto found =
        std::find_if(processes_.begin(), processes_.end(), [pid](const auto& each) { return each.second.pid == pid; });
    if (found == processes_.end()) continue;
    const EndFacts facts{Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime), usage.ru_maxrss};
    Finish(found->first, found->second, status, facts);
    processes_.erase(found);
  }
}

void Processes::AddTo(std::vector<pollfd>& polled) {
  places_.clear();
  for (auto& [id, process] : processes_) {
    if (process.in >= 0 && !process.pending.empty()) {
      polled.push_back({process.in, POLLOUT, 0});
      places_.push_back({id, -1});
    }
    for (int i = 0; i < 3; ++i) {
      if (process.out[i] < 0 || process.window <= 0) continue;
      polled.push_back({process.out[i], POLLIN, 0});
      places_.push_back({id, i});
    }
  }
  for (const int fd : left_behind_) polled.push_back({fd, POLLIN, 0});
}

void Processes::Serve(const std::vector<pollfd>& polled) {
  const size_t first = polled.size() - places_.size() - left_behind_.size();
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto found = processes_.find(places_[i].id);
    if (polled[first + i].revents == 0 || found == processes_.end()) continue;
    Process& process = found->second;
    if (places_[i].pipe < 0) {
      Feed(found->first, process);
      continue;
    }
    // Notes describe earlier stdout and stderr output. Forwards all of that output first, regardless of the window, and
    // then only the notes that were there before. A pipe holds a bounded amount. If the notes pipe is empty here, it
    // has no writer left.
    int64_t most = std::min<int64_t>(process.window, 65536);
    int there = 0;
    if (places_[i].pipe == 2 && ioctl(process.out[2], FIONREAD, &there) == 0 && there > 0) {
      most = std::min<int64_t>(most, there);
    }
    for (int pipe = 0; places_[i].pipe == 2 && pipe < 2; ++pipe) {
      if (process.out[pipe] >= 0 && ioctl(process.out[pipe], FIONREAD, &there) == 0)
        Forward(found->first, process, pipe, there);
    }
    Forward(found->first, process, places_[i].pipe, most);
  }
  std::vector<int> kept;
  for (size_t i = 0; i < left_behind_.size(); ++i) {
    char buffer[65536];
    const bool ready = polled[first + places_.size() + i].revents != 0;
    const ssize_t got = ready ? read(left_behind_[i], buffer, sizeof(buffer)) : 1;
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) {
      kept.push_back(left_behind_[i]);
    } else {
      close(left_behind_[i]);
    }
  }
  left_behind_ = std::move(kept);
}

}  // namespace ingot::execution::guest_agent
