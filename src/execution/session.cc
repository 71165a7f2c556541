#include "execution/session.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/match.h"

namespace ingot::execution {
namespace {

using std::chrono::nanoseconds;

std::string StartPayload(const Program& program, const std::map<std::string, std::string>& env) {
  const StartFacts facts{static_cast<uint32_t>(program.argv.size()), static_cast<uint32_t>(env.size()),
                         static_cast<uint64_t>(program.memory_bytes), static_cast<uint64_t>(program.cpu_seconds)};
  std::string payload(reinterpret_cast<const char*>(&facts), sizeof(facts));
  payload.append(program.folder.c_str(), program.folder.size() + 1);
  for (const std::string& argument : program.argv) payload.append(argument.c_str(), argument.size() + 1);
  for (const auto& [name, value] : env) {
    payload += name + "=";
    payload.append(value.c_str(), value.size() + 1);
  }
  return payload;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> Session::Open(sandbox::Substrate& substrate, SessionOptions options) {
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Sandbox> sandbox, substrate.Prepare(options.sandbox));
  const std::shared_ptr<Session> session(new Session(std::move(options)));
  INGOT_RETURN_IF_ERROR(session->Begin(std::move(sandbox)));
  // The threads also hold the session, so its members are destroyed after the threads exit.
  std::shared_ptr<Session> handle(session.get(), [session](Session*) {
    session->End("the session is no longer used");
    session->Join();
  });
  // Checks that the guest agent answers. Otherwise, the session's first request would time out.
  const FileAnswer answer = session->Ask(FileOp::kStat, FileFacts(), session->folder());
  if (!answer.status.ok()) return base::Annotate(answer.status, "a session did not start");
  return handle;
}

absl::Status Session::Begin(std::unique_ptr<sandbox::Sandbox> sandbox) {
  if (options_.folder.empty()) options_.folder = sandbox->work();
  if (options_.home.empty()) options_.home = sandbox->home();
  env_ = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
          {"HOME", options_.home},
          {"TMPDIR", sandbox->tmp()},
          {"LANG", "C.UTF-8"}};
  for (const auto& [name, value] : options_.env) env_[name] = value;
  {
    base::MutexLock lock(mu_);
    sandbox_ = std::move(sandbox);
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return sandbox::ErrnoStatus(errno, "cannot create a session's sockets");
  link_.Reset(pair[0]);
  far_link_.Reset(pair[1]);
  sandbox::Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return sandbox::ErrnoStatus(errno, "cannot create a session's eventfd");
  outbox_ = std::make_shared<Outbox>(std::move(wake));
  keeper_ = std::thread([self = shared_from_this()] { self->RunKeeper(); });
  loop_ = std::thread([self = shared_from_this()] { self->Loop(); });
  return absl::OkStatus();
}

void Session::Join() {
  for (std::thread* const thread : {&keeper_, &loop_}) {
    if (!thread->joinable()) continue;
    if (thread->get_id() == std::this_thread::get_id()) {
      thread->detach();  // The thread holds the session until it is done.
    } else {
      thread->join();
    }
  }
}

absl::StatusOr<Session::StartedProgram> Session::Start(Program program, std::function<void()> news) {
  INGOT_RETURN_IF_ERROR(
      sandbox::CheckCommand({.argv = program.argv, .env = program.env, .working_dir = "", .stdin_text = ""}));
  program.folder = Absolute(program.folder);
  if (program.folder.find('\0') != std::string::npos)
    return absl::InvalidArgumentError("the folder's name has a NUL byte");
  std::map<std::string, std::string> env = env_;
  for (const auto& [name, value] : program.env) env[name] = value;
  const std::string payload = StartPayload(program, env);
  const uint32_t flags = (program.has_input ? kHasInput : 0u) | (program.has_notes ? kHasNotes : 0u);
  const auto wall_time = program.wall_time;
  Starting starting;
  StartedProgram started;
  uint32_t id;
  {
    base::MutexLock lock(mu_);
    if (why_.has_value()) return absl::UnavailableError(*why_);
    if (std::ssize(processes_) >= options_.processes)
      return absl::ResourceExhaustedError(
          absl::StrCat("the session is already running ", options_.processes, " programs: end one first"));
    id = next_id_++;
    starting.process = started.process = std::make_shared<Process>(id, std::move(program));
    started.process->memory_kills_before_ = MemoryKills();
    if (news != nullptr) started.subscription = started.process->Subscribe(std::move(news));
    INGOT_RETURN_IF_ERROR(outbox_->Add(FrameKind::kStart, id, flags, payload));
    processes_[id] = started.process;
    starting_[id] = &starting;
    const auto deadline = SteadyClock::now() + options_.timeout;
    while (!starting.answer.has_value() && SteadyClock::now() < deadline)
      changed_.WaitFor(mu_, deadline - SteadyClock::now());
    starting_.erase(id);
    if (!starting.answer.has_value()) {
      processes_.erase(id);
      outbox_->Add(FrameKind::kSignal, id, SIGKILL, "").IgnoreError();
      return absl::UnavailableError(kNoAnswer);
    }
  }
  INGOT_RETURN_IF_ERROR(*starting.answer);
  if (wall_time.count() > 0) SetDeadline(*started.process, wall_time, SIGKILL);
  return started;
}

absl::Status Session::Send(Process& process, std::string_view bytes) {
  if (!process.program().has_input)
    return absl::FailedPreconditionError("the process was started without stdin: start it with stdin to send some");
  base::MutexLock lock(mu_);
  if (!processes_.contains(process.id())) return absl::NotFoundError("the process has ended");
  if (process.untaken_ + static_cast<int64_t>(bytes.size()) > kMaxUntaken) {
    return absl::ResourceExhaustedError(absl::StrCat("the process has not read ", process.untaken_,
                                                     " bytes of its stdin: at most ", kMaxUntaken, " may wait"));
  }
  INGOT_RETURN_IF_ERROR(outbox_->Add(FrameKind::kInput, process.id(), 0, bytes));
  process.untaken_ += static_cast<int64_t>(bytes.size());  // under the lock, so before an answer subtracts them
  return absl::OkStatus();
}

absl::Status Session::CloseInput(Process& process) {
  if (!process.program().has_input) return absl::FailedPreconditionError("the process was started without stdin");
  return outbox_->Add(FrameKind::kCloseInput, process.id(), 0, "");
}

void Session::Signal(const Process& process, int signal) {
  outbox_->Add(FrameKind::kSignal, process.id(), static_cast<uint32_t>(signal), "").IgnoreError();
}

void Session::SetDeadline(Process& process, nanoseconds after, int signal) {
  {
    base::MutexLock lock(mu_);
    if (process.was_killed_) return;  // the deadline is now for the end after SIGKILL
    process.deadline_ = SteadyClock::now() + after;
    process.deadline_signal_ = signal;
  }
  outbox_->Wake();
}

std::vector<std::shared_ptr<Process>> Session::Processes() const {
  base::MutexLock lock(mu_);
  std::vector<std::shared_ptr<Process>> running;
  for (const auto& [id, process] : processes_) {
    if (!starting_.contains(id)) running.push_back(process);
  }
  return running;
}

std::shared_ptr<Process> Session::Find(uint32_t id) const {
  base::MutexLock lock(mu_);
  const auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : found->second;
}

int64_t Session::MemoryKills() const { return sandbox_ == nullptr ? 0 : sandbox_->MemoryKills(); }

std::shared_ptr<Process> Session::FindPid(uint32_t pid) const {
  for (const auto& process : Processes()) {
    if (process->pid() == pid) return process;
  }
  return nullptr;
}

std::string Session::Absolute(const std::string& path) const {
  if (path.empty() || path == ".") return options_.folder;
  if (path[0] == '/') return path;
  if (path == "~" || path.starts_with("~/")) return options_.home + path.substr(1);
  return absl::StrCat(options_.folder, "/", path);
}

void Session::Order(FileOp op, const FileFacts& facts, const std::string& first, const std::string& second,
                    std::string_view bytes, std::function<void(FileAnswer)> done) {
  std::string payload(reinterpret_cast<const char*>(&facts), sizeof(facts));
  for (const std::string* const path : {&first, &second}) {
    if (path == &second && op != FileOp::kMove) continue;
    if (path->find('\0') != std::string::npos || path->size() > 4095)
      return done({absl::InvalidArgumentError("a path must be at most 4,095 bytes, without a NUL byte"), ""});
    const std::string absolute = Absolute(*path);
    payload.append(absolute.c_str(), absolute.size() + 1);
  }
  payload += bytes;
  absl::Status status;
  {
    base::MutexLock lock(mu_);
    if (why_.has_value()) status = absl::UnavailableError(*why_);
    if (status.ok()) status = outbox_->Add(FrameKind::kFile, next_id_, static_cast<uint32_t>(op), payload);
    if (status.ok()) files_[next_id_++] = {done, SteadyClock::now() + options_.timeout};
  }
  if (!status.ok()) done({status, ""});
}

FileAnswer Session::Ask(FileOp op, const FileFacts& facts, const std::string& first, const std::string& second,
                        std::string_view bytes) {
  struct Waiting {
    base::Mutex mu;
    base::CondVar changed;
    std::optional<FileAnswer> answer ABSL_GUARDED_BY(mu);
  };
  const auto waiting = std::make_shared<Waiting>();
  Order(op, facts, first, second, bytes, [waiting](FileAnswer answer) {
    base::MutexLock lock(waiting->mu);
    waiting->answer = std::move(answer);
    waiting->changed.SignalAll();
  });
  base::MutexLock lock(waiting->mu);
  while (!waiting->answer.has_value()) waiting->changed.Wait(waiting->mu);
  FileAnswer answer = *std::move(waiting->answer);
  if (absl::StartsWith(answer.status.message(), "the file: ")) {
    const std::string name = second.empty() ? first : absl::StrCat(first, " to ", second);
    answer.status = absl::Status(answer.status.code(), absl::StrCat(name, answer.status.message().substr(8)));
  }
  return answer;
}

void Session::End(const std::string& why) {
  {
    base::MutexLock lock(mu_);
    if (why_.has_value()) return;
    why_ = why;
  }
  cancel_.Cancel();
}

bool Session::has_ended() const {
  base::MutexLock lock(mu_);
  return why_.has_value();
}

std::string Session::why() const {
  base::MutexLock lock(mu_);
  return why_.value_or("");
}

void Session::WhenGone(std::function<void()> call) {
  {
    base::MutexLock lock(mu_);
    if (!gone_) return when_gone_.push_back(std::move(call));
  }
  call();
}

}  // namespace ingot::execution
