// Implements a session's two threads: one runs its sandbox, and the other transfers frames.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "execution/session.h"

// The symbols that the linker creates for the embedded program (CMakeLists.txt).
extern "C" const char _binary_ingot_guest_agent_start[];
extern "C" const char _binary_ingot_guest_agent_end[];

namespace ingot::execution {
namespace {

using std::chrono::nanoseconds;

constexpr int64_t kMaxBeyondWindow = 4 << 20;    // three pipes, each with the largest size that a program may set
constexpr std::chrono::seconds kSignalGrace(2);  // from a deadline's signal to SIGKILL

// Returns the guest agent's program as a sealed in-memory file, which is created once, or -1 if the machine does not
// allow it.
int ProgramFile() {
  static const int file = [] {
    const int fd = memfd_create("ingot-guest-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    std::string_view left(_binary_ingot_guest_agent_start,
                          static_cast<size_t>(_binary_ingot_guest_agent_end - _binary_ingot_guest_agent_start));
    while (fd >= 0 && !left.empty()) {
      const ssize_t wrote = write(fd, left.data(), left.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return -1;
      left.remove_prefix(static_cast<size_t>(wrote));
    }
    if (fd >= 0) fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
  }();
  return file;
}

absl::Status FileStatus(uint32_t error, const std::string& path) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(static_cast<int>(error)));
  switch (error) {
    case 0:
      return absl::OkStatus();
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    case E2BIG:
      return absl::ResourceExhaustedError(absl::StrCat(path, ": more than ", kMaxEntries, " entries"));
    default:
      return absl::InvalidArgumentError(text);
  }
}

absl::Status RejectedStatus(uint32_t error, std::string_view step, const Program& program) {
  const std::string& name = step == "the working folder" ? program.folder : program.argv[0];
  const auto status = FileStatus(error, name);
  return base::Annotate(status, absl::StrCat("cannot start ", base::View(step)));
}

std::string EndOfSandbox(const absl::StatusOr<sandbox::Outcome>& outcome) {
  if (!outcome.ok()) return std::string(outcome.status().message());
  switch (outcome->ending) {
    case sandbox::Ending::kMemoryFull:
      return "the session's programs together used more memory than its limit";
    case sandbox::Ending::kDiskFull:
      return "the disk of the session's sandbox is full";
    case sandbox::Ending::kNoSpace:
      return "the disk of this machine is full";
    case sandbox::Ending::kTimedOut:
      return "the session reached its maximum lifetime";
    default:
      return "the session's guest agent was killed by one of the session's programs, or because it ran out of memory";
  }
}

}  // namespace

void Session::RunKeeper() {
  RunGuestAgent();
  far_link_.Reset();  // the loop sees the end
  std::unique_ptr<sandbox::Sandbox> gone;
  {
    base::MutexLock lock(mu_);
    gone = std::move(sandbox_);
  }
  gone.reset();
  std::vector<std::function<void()>> calls;
  {
    base::MutexLock lock(mu_);
    gone_ = true;
    calls.swap(when_gone_);
  }
  for (const auto& call : calls) call();
}

void Session::RunGuestAgent() {
  if (ProgramFile() < 0) return End("cannot create a file in memory for a session's guest agent");
  sandbox::Sandbox* sandbox = nullptr;
  {
    base::MutexLock lock(mu_);
    sandbox = sandbox_.get();
  }
  const sandbox::Command command{.argv = {"guest-agent"},
                                 .env = {},
                                 .working_dir = sandbox->work(),
                                 .stdin_text = "",
                                 .program = ProgramFile(),
                                 .channel = far_link_.get()};
  sandbox::Limits limits;
  limits.wall_time = options_.lifetime;
  limits.term_grace = nanoseconds(0);
  const auto outcome = sandbox->Run(command, limits, &cancel_);
  End(EndOfSandbox(outcome));
}

void Session::Loop() {
  bool is_open = true;
  while (is_open) {
    const int timeout_ms = FireDeadlines();
    pollfd fds[2] = {{link_.get(), static_cast<short>(outbox_->is_empty() ? POLLIN : POLLIN | POLLOUT), 0},
                     {outbox_->wake_fd(), POLLIN, 0}};
    if (poll(fds, 2, timeout_ms) < 0) continue;  // EINTR
    eventfd_t count;
    if (fds[1].revents != 0) eventfd_read(outbox_->wake_fd(), &count);
    const bool sent = outbox_->Flush([this](std::string_view bytes) -> ssize_t {
      const ssize_t wrote = send(link_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      return wrote < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : wrote;
    });
    if (!sent) is_broken_ = true;
    if (fds[0].revents != 0) is_open = Read();
    if (!sent && is_open) poll(nullptr, 0, 1);  // its last bytes may still arrive
  }
  FinishAll(why());
}

bool Session::Read() {
  char buffer[65536];
  const ssize_t got = recv(link_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  if (is_broken_) return true;
  incoming_.append(buffer, static_cast<size_t>(got));
  size_t used = 0;
  FrameHeader header;
  while (!is_broken_ && incoming_.size() - used >= sizeof(header)) {
    std::memcpy(&header, incoming_.data() + used, sizeof(header));
    is_broken_ = header.size > kMaxPayload;
    if (is_broken_ || incoming_.size() - used - sizeof(header) < header.size) break;
    is_broken_ = !HandleFrame(header, std::string_view(incoming_).substr(used + sizeof(header), header.size));
    used += sizeof(header) + header.size;
  }
  incoming_.erase(0, used);
  if (is_broken_) End("the session's guest agent sent an invalid message");
  return true;
}

bool Session::HandleFrame(const FrameHeader& header, std::string_view payload) {
  switch (header.kind) {
    case FrameKind::kStarted:
    case FrameKind::kRejected: {
      base::MutexLock lock(mu_);
      const auto found = starting_.find(header.id);
      if (found == starting_.end()) return true;  // the caller gave up waiting
      Starting& starting = *found->second;
      starting_.erase(found);
      starting.process->pid_ = header.number;
      starting.process->started_ = SteadyClock::now();
      const bool started = header.kind == FrameKind::kStarted;
      starting.answer = started ? absl::OkStatus()
                                : RejectedStatus(header.number, payload.substr(0, 100), starting.process->program());
      if (!started) processes_.erase(header.id);
      changed_.SignalAll();
      return true;
    }
    case FrameKind::kOutput:
    case FrameKind::kErrors:
    case FrameKind::kNotes:
      return TakeOutput(header, payload);
    case FrameKind::kTaken: {
      base::MutexLock lock(mu_);
      const auto found = processes_.find(header.id);
      if (found != processes_.end())
        found->second->untaken_ = std::max<int64_t>(0, found->second->untaken_ - header.number);
      return true;
    }
    case FrameKind::kEnded:
      return TakeEnd(header, payload);
    case FrameKind::kFileDone: {
      std::function<void(FileAnswer)> done;
      {
        base::MutexLock lock(mu_);
        const auto found = files_.find(header.id);
        if (found == files_.end()) return true;
        done = std::move(found->second.done);
        files_.erase(found);
      }
      done({FileStatus(header.number, "the file"), std::string(payload)});
      return true;
    }
    default:
      return false;
  }
}

bool Session::TakeOutput(const FrameHeader& header, std::string_view payload) {
  const std::shared_ptr<Process> process = Find(header.id);
  if (process == nullptr || payload.empty()) return true;
  const Stream stream = header.kind == FrameKind::kOutput   ? Stream::kOut
                        : header.kind == FrameKind::kErrors ? Stream::kErr
                                                            : Stream::kNotes;
  const auto cost = static_cast<uint32_t>(payload.size()) + kFrameCost;
  if ((*process->held_ += cost) > kWindowBytes + kMaxBeyondWindow) return false;
  const auto let_go = [outbox = outbox_, held = process->held_, id = header.id, cost] {
    *held -= cost;
    outbox->Add(FrameKind::kCredit, id, cost, "").IgnoreError();
  };
  process->Deliver(std::make_shared<Chunk>(stream, std::string(payload), let_go));
  return true;
}

bool Session::TakeEnd(const FrameHeader& header, std::string_view payload) {
  EndFacts facts;
  if (payload.size() != sizeof(facts)) return false;
  std::memcpy(&facts, payload.data(), sizeof(facts));
  ProcessEnd end;
  std::shared_ptr<Process> process;
  {
    base::MutexLock lock(mu_);
    const auto found = processes_.find(header.id);
    if (found == processes_.end()) return true;
    process = std::move(found->second);
    processes_.erase(found);
    if (process->timed_out_) end.ending = sandbox::Ending::kTimedOut;
    end.memory_kills = std::max<int64_t>(0, MemoryKills() - process->memory_kills_before_);
  }
  const auto status = static_cast<int>(header.number);
  if (end.ending == sandbox::Ending::kTimedOut) {
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  } else if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    const bool was_killed = end.signal == SIGKILL && end.memory_kills > 0;
    end.ending = was_killed ? sandbox::Ending::kMemoryFull : sandbox::Ending::kSignalled;
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  end.wall = SteadyClock::now() - process->started_;
  end.cpu = nanoseconds(facts.cpu_ns);
  end.max_rss_bytes = facts.max_rss_kib * 1024;
  process->Finish(end);
  return true;
}

int Session::FireDeadlines() {
  const SteadyClock::time_point now = SteadyClock::now();
  const SteadyClock::time_point next = std::min(FireProcesses(now), FireFileRequests(now));
  if (next == SteadyClock::time_point::max()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
}

Session::SteadyClock::time_point Session::FireProcesses(SteadyClock::time_point now) {
  SteadyClock::time_point next = SteadyClock::time_point::max();
  bool is_deaf = false;
  {
    base::MutexLock lock(mu_);
    for (const auto& [id, process] : processes_) {
      if (process->deadline_signal_ == 0) continue;
      if (process->deadline_ <= now && process->was_killed_) {
        process->deadline_signal_ = 0;
        is_deaf = true;
        continue;
      }
      if (process->deadline_ <= now) {
        const int signal = process->deadline_signal_;
        process->timed_out_ = process->was_killed_ = signal == SIGKILL;
        outbox_->Add(FrameKind::kSignal, id, static_cast<uint32_t>(signal), "").IgnoreError();
        process->deadline_signal_ = SIGKILL;
        process->deadline_ = now + (signal == SIGKILL ? options_.timeout : nanoseconds(kSignalGrace));
      }
      next = std::min(next, process->deadline_);
    }
  }
  if (is_deaf) End(kNoAnswer);
  return next;
}

Session::SteadyClock::time_point Session::FireFileRequests(SteadyClock::time_point now) {
  std::vector<std::function<void(FileAnswer)>> late;
  SteadyClock::time_point next = SteadyClock::time_point::max();
  {
    base::MutexLock lock(mu_);
    while (!files_.empty() && files_.begin()->second.deadline <= now) {
      late.push_back(std::move(files_.begin()->second.done));
      files_.erase(files_.begin());
    }
    if (!files_.empty()) next = files_.begin()->second.deadline;
  }
  for (const auto& done : late) done({absl::UnavailableError(kNoAnswer), ""});
  return next;
}

void Session::FinishAll(const std::string& why) {
  std::map<uint32_t, std::shared_ptr<Process>> processes;
  std::map<uint32_t, FileOrder> files;
  {
    base::MutexLock lock(mu_);
    processes.swap(processes_);
    files.swap(files_);
    for (const auto& [id, starting] : starting_) starting->answer = absl::UnavailableError(why);
    starting_.clear();
    changed_.SignalAll();
  }
  ProcessEnd end;
  end.ending = sandbox::Ending::kCancelled;
  end.why = why;
  for (const auto& [id, process] : processes) process->Finish(end);
  for (const auto& [id, order] : files) order.done({absl::UnavailableError(why), ""});
}

}  // namespace ingot::execution
