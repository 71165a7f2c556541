#include "app/cluster/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "sandbox/spawn.h"

extern char** environ;

namespace ingot::app {
namespace {

// Returns true for the exit codes of a process that did not fail by its own error, so a new one may succeed.
bool IsCrash(int exit_code) { return exit_code == kStoppedExit || exit_code == kDeviceFailedExit; }

// Returns the error of a role that ended: the last line in its log that was printed by Fail in process.h, without the
// prefix. Empty = the last lines contain none.
std::string LastError(const std::string& log_path) {
  constexpr std::streamoff kTail = 16384;
  constexpr std::string_view kMark = "ingot: ";
  std::ifstream log(log_path, std::ios::ate);
  const std::streamoff size = log.tellg();
  log.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string error;
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with(kMark)) error = line.substr(kMark.size());
  }
  return error;
}

}  // namespace

Supervisor::~Supervisor() {
  StopAll([](const std::string& line) { INGOT_LOG(info, "{}", line); });
}

namespace {

// Returns a socket that delivers `text` and then end of file.
absl::StatusOr<sandbox::Fd> Given(const std::string& text) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return sandbox::ErrnoStatus(errno, "cannot make a socket");
  }
  const sandbox::Fd writer(ends[1]);
  sandbox::Fd reader(ends[0]);
  // `text` must fit in the socket's buffer, because nothing reads it before the process runs.
  const ssize_t sent = send(writer.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(text.size())) return reader;
  return sandbox::ErrnoStatus(sent < 0 ? errno : ENOSPC, "cannot pass a role its input");
}

}  // namespace

absl::StatusOr<pid_t> Supervisor::Spawn(const RoleSpec& spec, bool again) {
  sandbox::Command command{.argv = spec.argv, .env = {}, .working_dir = "", .stdin_text = ""};
  if (again) command.argv.insert(command.argv.end(), spec.restart_extra.begin(), spec.restart_extra.end());
  const auto add = [&command](std::string_view variable) {  // the first value for a name is kept
    const size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string_view::npos) return;
    command.env.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  };
  for (char** inherited = environ; *inherited != nullptr; ++inherited) add(*inherited);

  sandbox::Fd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!spec.input.empty()) {
    INGOT_ASSIGN_OR_RETURN(in, Given(spec.input));
  }
  const sandbox::Fd log(open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!in.valid() || !log.valid()) {
    return sandbox::ErrnoStatus(errno, absl::StrCat("cannot start role ", spec.name, ": cannot open ",
                                                    in.valid() ? spec.log_path : "/dev/null"));
  }
  // A role stays in this session, so that terminals and job systems see one job. From the start, the kernel kills it
  // when this process dies. The program itself requests the same (DieWithParent), but a busy machine may take many
  // seconds to load it.
  const absl::StatusOr<pid_t> pid =
      sandbox::Spawn(command, {in.get(), spec.inherits_stdout ? 1 : log.get(), log.get()},
                     {.own_session = false, .dumps_core = true, .dies_with_its_thread = true});
  if (!pid.ok()) return base::Annotate(pid.status(), absl::StrCat("cannot start role ", spec.name));
  return pid;
}

absl::Status Supervisor::Start(RoleSpec spec) {
  Role role;
  role.spec = std::move(spec);
  INGOT_RETURN_IF_ERROR(Begin(role));
  roles_.push_back(std::move(role));
  return absl::OkStatus();
}

absl::Status Supervisor::Begin(Role& role) const {
  INGOT_ASSIGN_OR_RETURN(role.pid, Spawn(role.spec, role.has_run));
  if (!role.has_run) INGOT_LOG(info, "role {} started as process {}", role.spec.name, role.pid);
  role.has_run = true;
  role.failed_starts = 0;
  role.started = options_.clock->Now();
  return absl::OkStatus();
}

absl::Status Supervisor::BeginOrDefer(Role& role, const OnStatus& on_status) const {
  const absl::Status begun = Begin(role);
  if (begun.ok()) return begun;
  const std::string why(begun.message());
  if (role.failed_starts >= options_.max_restarts) {
    return absl::AbortedError(absl::StrCat(why, "; gave up after ", role.failed_starts, " more tries"));
  }
  ++role.failed_starts;
  const std::chrono::milliseconds wait = options_.restart_delay * (1 << std::min(role.failed_starts, 6));
  role.start_after = options_.clock->Now() + wait;
  on_status(absl::StrCat(why, "; retrying in ", wait.count(), " ms"));
  return absl::OkStatus();
}

std::string Supervisor::Describe(const Role& role, int wait_status) {
  std::string how = " ended";
  if (WIFEXITED(wait_status)) how = absl::StrCat(" exited with ", WEXITSTATUS(wait_status));
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kStoppedExit)
    how = " was ended by a signal from another process";
  if (WIFSIGNALED(wait_status)) {
    how = role.killed ? absl::StrCat(" outlived its group, ", role.spec.group, ", and was ended by the supervisor")
                      : absl::StrCat(" was killed by signal ", WTERMSIG(wait_status));
  }
  const bool failed = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0;
  const std::string error = failed ? LastError(role.spec.log_path) : "";
  return absl::StrCat(role.spec.name, how, error.empty() ? "" : ": ", error, "; see ", role.spec.log_path);
}

absl::StatusOr<int> Supervisor::Run(const std::function<bool()>& stop, const OnStatus& on_status) {
  const Ending ending = TendAll(stop, on_status);
  StopAll(on_status);
  on_status(absl::StrCat("the run ended: ", ending.why));
  return ending.code;
}

Supervisor::Ending Supervisor::TendAll(const std::function<bool()>& stop, const OnStatus& on_status) {
  const auto failed = [](const absl::Status& status) { return Ending{status, std::string(status.message())}; };
  while (true) {
    if (stop()) {
      on_status("stopping all roles in order; a second signal ends them immediately");
      return failed(absl::CancelledError("stopped"));
    }
    for (Role& role : roles_) {
      absl::StatusOr<std::optional<Ending>> ending = Tend(role, on_status);
      if (!ending.ok()) return failed(ending.status());
      if (ending->has_value()) return **std::move(ending);
    }
    if (const absl::Status status = TendGroups(on_status); !status.ok()) return failed(status);
    if (const absl::Status status = StartArrivals(on_status); !status.ok()) return failed(status);
    ReportStates();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

absl::Status Supervisor::StartArrivals(const OnStatus& on_status) {
  if (!options_.arrivals) return absl::OkStatus();
  for (RoleSpec& spec : options_.arrivals()) {
    on_status(absl::StrCat(spec.name, " is started here"));
    Role& role = roles_.emplace_back();
    role.spec = std::move(spec);
    INGOT_RETURN_IF_ERROR(BeginOrDefer(role, on_status));
  }
  return absl::OkStatus();
}

void Supervisor::ReportStates() {
  if (!options_.on_states) return;
  std::vector<RoleState> states;
  for (const Role& role : roles_) states.push_back({role.spec.name, role.pid, role.restarts, role.done});
  if (states == reported_) return;
  reported_ = std::move(states);
  options_.on_states(reported_);
}

absl::StatusOr<std::optional<Supervisor::Ending>> Supervisor::Tend(Role& role, const OnStatus& on_status) {
  if (role.done) return std::nullopt;
  if (role.pid < 0) {
    if (ending_.contains(role.spec.group) || options_.clock->Now() < role.start_after) return std::nullopt;
    if (IsHeld(role, on_status)) return std::nullopt;
    const bool again = role.has_run;
    INGOT_RETURN_IF_ERROR(BeginOrDefer(role, on_status));
    if (role.pid < 0) return std::nullopt;
    const std::string count = absl::StrCat(" (", role.restarts, " of ", options_.max_restarts, ")");
    on_status(absl::StrCat(role.spec.name, again ? " started again" : " started",
                           again && role.spec.group.empty() ? count : ""));
    return std::nullopt;
  }
  int wait_status = 0;
  const pid_t ended = waitpid(role.pid, &wait_status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  role.pid = -1;
  const bool exited = WIFEXITED(wait_status);
  const int code = exited ? WEXITSTATUS(wait_status) : -1;
  // A kernel that fails at the same step after each restart may take longer than that to reach it.
  const bool long_ago = options_.clock->Now() - role.started >= options_.forget_after;
  if (long_ago && code != kDeviceFailedExit) role.restarts = 0;
  const bool left_alone = !role.spec.group.empty() && code == kGroupLostExit;
  const bool crashed = !exited || IsCrash(code);
  if (!crashed && code != 0 && code != kGroupLostExit) HoldIfObstructed(role);
  if (!crashed && role.spec.decides && !left_alone && !role.held) {
    return Ending{code, Describe(role, wait_status)};
  }
  if (exited && code == 0 && role.spec.may_finish) {
    role.done = true;
    on_status(absl::StrCat(role.spec.name, " is done"));
    return std::nullopt;
  }
  if (!role.spec.group.empty()) {
    NoteGroupEnd(role, wait_status, on_status);
    return std::nullopt;
  }
  const std::string what = Describe(role, wait_status);
  on_status(what);
  if (role.held) {
    on_status(absl::StrCat(role.spec.name, " will restart once it can succeed: ", options_.obstacle()));
    Schedule(role);
    return std::nullopt;
  }
  if (code == kRejectedExit && role.restarts == 0) {
    return absl::AbortedError(absl::StrCat(what, "; it is not restarted, because it would fail the same way"));
  }
  INGOT_RETURN_IF_ERROR(Restart(role, what));
  return std::nullopt;
}

void Supervisor::HoldIfObstructed(Role& role) const {
  const std::string obstacle = options_.obstacle ? options_.obstacle() : "";
  if (!obstacle.empty()) role.held = std::make_unique<base::Wait>(StartOf(role, obstacle));
}

std::string Supervisor::StartOf(const Role& role, const std::string& obstacle) {
  return absl::StrCat("the start of ", role.spec.name, ": ", obstacle);
}

bool Supervisor::IsHeld(Role& role, const OnStatus& on_status) const {
  const auto held = [&](const Role& other) {  // roles in a group must start together
    return other.held != nullptr &&
           (&other == &role || (!role.spec.group.empty() && other.spec.group == role.spec.group));
  };
  if (std::none_of(roles_.begin(), roles_.end(), held)) return false;
  const std::string obstacle = options_.obstacle();
  if (role.held && !obstacle.empty()) role.held->Because(StartOf(role, obstacle));
  if (!obstacle.empty()) return true;
  if (role.held) on_status(absl::StrCat("nothing blocks ", role.spec.name, " now"));
  role.held.reset();
  return false;
}

absl::Status Supervisor::Restart(Role& role, const std::string& why) {
  if (role.restarts >= options_.max_restarts) {
    return absl::AbortedError(absl::StrCat(why, "; gave up after ", role.restarts, " restarts"));
  }
  ++role.restarts;
  Schedule(role);
  return absl::OkStatus();
}

void Supervisor::Schedule(Role& role) const {
  role.done = role.killed = role.died = false;
  role.start_after = options_.clock->Now() + options_.restart_delay;
}

void Supervisor::NoteGroupEnd(Role& role, int wait_status, const OnStatus& on_status) {
  const std::string what = Describe(role, wait_status);
  on_status(what);
  const auto kill_after = options_.clock->Now() + options_.group_grace;
  EndingGroup& group = ending_.try_emplace(role.spec.group, EndingGroup{what, "", kill_after}).first->second;
  const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  const bool own_error = WIFEXITED(wait_status) && code != kGroupLostExit && !IsCrash(code) && !role.held;
  if (own_error && group.error.empty()) group.error = what;
  role.died = (WIFSIGNALED(wait_status) && !role.killed) || IsCrash(code);
}

absl::Status Supervisor::TendGroups(const OnStatus& on_status) {
  for (auto it = ending_.begin(); it != ending_.end();) {
    const auto& [name, group] = *it;
    bool running = false;
    for (Role& role : roles_) {
      if (role.spec.group != name || role.pid < 0) continue;
      running = true;
      if (role.killed || options_.clock->Now() < group.kill_after) continue;
      kill(role.pid, SIGKILL);
      role.killed = true;
    }
    if (running) {
      ++it;
      continue;
    }
    if (!group.error.empty()) return absl::AbortedError(group.error);
    INGOT_RETURN_IF_ERROR(RestartGroup(name, group.first, on_status));
    it = ending_.erase(it);
  }
  return absl::OkStatus();
}

absl::Status Supervisor::RestartGroup(const std::string& name, const std::string& why, const OnStatus& on_status) {
  std::vector<Role*> members;
  for (Role& role : roles_) {
    if (role.spec.group == name) members.push_back(&role);
  }
  const bool any_died = std::any_of(members.begin(), members.end(), [](const Role* role) { return role->died; });
  const bool any_killed = std::any_of(members.begin(), members.end(), [](const Role* role) { return role->killed; });
  const bool held = std::any_of(members.begin(), members.end(), [](const Role* role) { return role->held != nullptr; });
  std::vector<std::string> lost;
  for (Role* role : members) {
    const bool counts = any_died ? role->died : !held && (role->killed || !any_killed);
    if (counts && role->restarts >= options_.max_restarts) {
      lost.push_back(role->spec.name);
      continue;
    }
    if (counts) ++role->restarts;
    Schedule(*role);
    if (!counts) continue;
    on_status(
        absl::StrCat(role->spec.name, " will be restarted (", role->restarts, " of ", options_.max_restarts, ")"));
  }
  if (!lost.empty()) return ContinueWithout(lost, name, why, on_status);
  on_status(absl::StrCat("all of ", name, " ended; they are started again together",
                         held ? absl::StrCat(" once they can succeed: ", options_.obstacle()) : ""));
  return absl::OkStatus();
}

absl::Status Supervisor::ContinueWithout(const std::vector<std::string>& lost, const std::string& name,
                                         const std::string& why, const OnStatus& on_status) {
  std::erase_if(roles_,
                [&](const Role& role) { return std::find(lost.begin(), lost.end(), role.spec.name) != lost.end(); });
  std::vector<Role*> rest;
  for (Role& role : roles_) {
    if (role.spec.group == name) rest.push_back(&role);
  }
  const auto size = static_cast<int>(rest.size());
  const bool can =
      std::all_of(rest.begin(), rest.end(), [](const Role* role) { return role->spec.renumbered != nullptr; });
  if (!can || size < options_.min_members) {
    return absl::AbortedError(absl::StrCat(why, "; gave up after ", options_.max_restarts, " restarts: ", size, " of ",
                                           name, " would be left, too few to continue"));
  }
  for (int i = 0; i < size; ++i) {
    RoleSpec& spec = rest[static_cast<size_t>(i)]->spec;
    spec = spec.renumbered(i, size);
  }
  on_status(absl::StrCat("gave up ", absl::StrJoin(lost, ", "), " after ", options_.max_restarts, " restarts; ", name,
                         " continues with ", size));
  return absl::OkStatus();
}

void Supervisor::StopAll(const OnStatus& on_status) {
  std::set<int> waves;
  for (const Role& role : roles_) waves.insert(role.spec.wave);
  for (const int wave : waves) StopWave(wave, on_status);
}

void Supervisor::StopWave(int wave, const OnStatus& on_status) {
  constexpr std::chrono::seconds kReportWaitAfter{5};
  const auto begin = options_.clock->Now();
  auto report_at = begin + kReportWaitAfter;
  // Kills roles whose grace period is over and reaps those that ended. Returns those that are still running.
  const auto running = [this, wave, begin, &on_status] {
    std::vector<std::string> names;
    for (Role& role : roles_) {
      if (role.spec.wave != wave || role.pid <= 0) continue;
      if (!role.killed && options_.clock->Now() - begin >= role.spec.stop_grace) {
        kill(role.pid, SIGKILL);
        role.killed = true;
        on_status(absl::StrCat(role.spec.name, " did not exit within ", role.spec.stop_grace.count(),
                               " ms after the signal to stop, and is killed"));
      }
      if (waitpid(role.pid, nullptr, WNOHANG) != 0) role.pid = -1;
      if (role.pid > 0) names.push_back(role.spec.name);
    }
    return names;
  };
  for (Role& role : roles_) {
    role.killed = false;
    if (role.spec.wave == wave && role.pid > 0) kill(role.pid, SIGTERM);
  }
  for (auto names = running(); !names.empty(); names = running()) {
    if (options_.clock->Now() >= report_at) {
      report_at = options_.clock->Now() + std::chrono::minutes(1);
      on_status(absl::StrCat("waits for the end of ", absl::StrJoin(names, ", ")));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace ingot::app
