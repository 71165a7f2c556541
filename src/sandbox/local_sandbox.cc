#include "sandbox/local_sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/random.h"
#include "sandbox/image/image.h"
#include "sandbox/running_command.h"
#include "sandbox/sandbox_fault.h"
#include "sandbox/trees/layers.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr int kEndTimeoutMs = 5'000;

std::vector<LaunchLimit> LaunchLimits(const Limits& limits, int64_t processes) {
  std::vector<LaunchLimit> list = {{RLIMIT_CORE, 0}};
  const auto add = [&list](int resource, int64_t value) {
    if (value > 0) list.push_back({resource, static_cast<uint64_t>(value)});
  };
  add(RLIMIT_AS, limits.memory_bytes);
  add(RLIMIT_NOFILE, limits.open_files);
  add(RLIMIT_CPU, limits.cpu_seconds);
  add(RLIMIT_FSIZE, limits.file_bytes);
  add(RLIMIT_NPROC, processes);
  return list;
}

// Returns the status for a command that did not start.
absl::Status FailureStatus(const LaunchFailure& failure, const Command& command) {
  const std::string& name = command.argv[0];
  switch (failure.step) {
    case LaunchStep::kWorkingFolder:
      return AsSandboxFault(ErrnoStatus(failure.error, absl::StrCat("cannot enter the working folder '",
                                                                    command.working_dir, "' to run '", name, "'")));
    case LaunchStep::kExec:
      if (name.find('/') != std::string::npos)
        return ErrnoStatus(failure.error, absl::StrCat("cannot execute '", name, "'"));
      if (failure.error == ENOENT) {
        return absl::NotFoundError(absl::StrCat("no executable '", name, "' in PATH=", SearchPath(command.env)));
      }
      return ErrnoStatus(failure.error,
                         absl::StrCat("cannot execute '", name, "' from PATH=", SearchPath(command.env)));
    default:
      return ErrnoStatus(failure.error, absl::StrCat("cannot start '", name, "' (", DescribeFailure(failure), ")"));
  }
}

// Creates an unnamed file in the sandbox's folder.
absl::StatusOr<Fd> MakeLog(int sandbox) {
  Fd log(openat(sandbox, ".", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid() && (errno == EOPNOTSUPP || errno == EISDIR)) {  // the file system does not support O_TMPFILE
    const std::string name = "companion-" + base::RandomHex(16);
    log = Fd(openat(sandbox, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (log.valid()) unlinkat(sandbox, name.c_str(), 0);
  }
  if (!log.valid())
    return ErrnoStatus(errno, "cannot create the file for a companion's output in the sandbox's folder");
  return log;
}

// Returns the sandbox's limits, or else the substrate's.
GroupLimits TotalsOf(const SandboxOptions& sandbox, const SubstrateOptions& usual) {
  GroupLimits limits = usual.totals;
  if (sandbox.totals.memory_bytes > 0) limits.memory_bytes = sandbox.totals.memory_bytes;
  if (sandbox.totals.processes > 0) limits.processes = sandbox.totals.processes;
  if (sandbox.totals.cpus > 0) limits.cpus = sandbox.totals.cpus;
  return limits;
}

// Waits until the other end of a sandbox's socket is closed.
void AwaitEnd(const Fd& socket) {
  shutdown(socket.get(), SHUT_WR);
  char left[256];
  for (pollfd end{socket.get(), POLLIN, 0}; poll(&end, 1, kEndTimeoutMs) == 1;) {
    const ssize_t got = recv(socket.get(), left, sizeof(left), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

}  // namespace

absl::StatusOr<Fd> CompanionLogs::Add(const Fd& folder) {
  INGOT_ASSIGN_OR_RETURN(Fd output, MakeLog(folder.get()));
  Fd log(fcntl(output.get(), F_DUPFD_CLOEXEC, 3));
  if (!log.valid()) return ErrnoStatus(errno, "cannot duplicate a descriptor");
  logs_.push_back(std::move(log));
  return output;
}

void CompanionLogs::Name(const Fd& folder, const std::string& path) const {
  for (size_t i = 0; i < logs_.size(); ++i) {
    const std::string log = absl::StrCat("/proc/self/fd/", logs_[i].get()),
                      name = absl::StrCat("companion-", i, ".txt");
    unlinkat(folder.get(), name.c_str(), 0);  // an agent may have put something there
    if (linkat(AT_FDCWD, log.c_str(), folder.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      INGOT_LOG(warn, "{}: a companion's output was lost: {}", path, std::strerror(errno));
  }
}

absl::StatusOr<std::unique_ptr<LocalSandbox>> LocalSandbox::Make(LocalGround& ground, const SandboxOptions& options) {
  std::unique_ptr<LocalSandbox> sandbox(new LocalSandbox(ground, options));
  const ProbeResult& probe_result = ground.probe_result;
  if ((!options.image.empty() || !options.binds.empty()) && !probe_result.root_folder) {
    return absl::FailedPreconditionError(
        absl::StrCat("an image or files at other paths need the isolation level namespaces, but agents have the ",
                     probe_result.Describe()));
  }
  const auto* const snapshot = dynamic_cast<const LocalSnapshot*>(options.from.get());
  sandbox->image_ = snapshot != nullptr ? snapshot->image : options.image;
  sandbox->layered_ =
      probe_result.layers && (snapshot != nullptr || options.takes_snapshots || !sandbox->image_.empty());
  if (!sandbox->image_.empty() && !probe_result.layers) {
    return absl::FailedPreconditionError("an image needs overlayfs, which this machine does not allow");
  }
  std::error_code error;
  if (!sandbox->image_.empty() && !fs::is_directory(sandbox->image_, error)) {
    return absl::InvalidArgumentError(absl::StrCat("the image folder ", sandbox->image_, " does not exist"));
  }
  INGOT_RETURN_IF_ERROR(sandbox->MakeFolders());
  if (snapshot != nullptr) INGOT_RETURN_IF_ERROR(sandbox->FillFromSnapshot(*snapshot));
  base::MutexLock lock(sandbox->mu_);
  INGOT_RETURN_IF_ERROR(sandbox->Open());
  return sandbox;
}

absl::Status LocalSandbox::MakeFolders() {
  const auto* const snapshot = dynamic_cast<const LocalSnapshot*>(options_.from.get());
  if (snapshot != nullptr && has_uid_per_snapshot()) {
    uid_ = snapshot->uid;  // the files belong to this uid
  } else if (ground_.uids != nullptr) {
    INGOT_ASSIGN_OR_RETURN(const int64_t uid, ground_.uids->Acquire());
    uid_ = std::make_shared<UidLease>(ground_.uids.get(), uid);
  }
  const auto owner = uid_ != nullptr ? std::optional(static_cast<uid_t>(uid_->uid())) : std::nullopt;
  INGOT_ASSIGN_OR_RETURN(WorkDir folder, WorkDir::Create(ground_.work_root, owner));
  folder_.emplace(std::move(folder));
  path_ = folder_->path();
  work_ = folder_->work();
  home_ = folder_->home();
  tmp_ = folder_->tmp();
  if (uid_ != nullptr && ground_.probe_result.mount_namespace) {
    const std::string line = absl::StrCat("agent:x:", uid_->uid(), ":", uid_->uid(), "::", home_, ":/bin/sh\n");
    // see NameUid in launcher/isolation_steps.h
    INGOT_RETURN_IF_ERROR(folder_->WriteNextToWork("passwd", ground_.known_users + line));
    chmod((path_ + "/passwd").c_str(), 0644);  // independent of the umask
  }
  for (const BindMount& bind : options_.binds) {
    if (bind.folder != "work") INGOT_RETURN_IF_ERROR(folder_->MakeFolder(absl::StrCat(path_, "/", bind.folder)));
  }
  if (layered_) INGOT_RETURN_IF_ERROR(MakeUpper());
  return MakeGroups();
}

absl::Status LocalSandbox::MakeGroups() {
  if (ground_.groups != nullptr) {
    INGOT_ASSIGN_OR_RETURN(ControlGroup group, ground_.groups->NewGroup(TotalsOf(options_, ground_.options)));
    group_.emplace(std::move(group));
  }
  if (ground_.freezers != nullptr) {
    INGOT_ASSIGN_OR_RETURN(freezer_, ground_.freezers->NewFreezer(group_.has_value() ? &*group_ : nullptr));
  }
  return absl::OkStatus();
}

DiskLimits LocalSandbox::disk_limits() const {
  const DiskLimits& usual = ground_.options.disk;
  return {.bytes = options_.disk.bytes > 0 ? options_.disk.bytes : usual.bytes,
          .files = options_.disk.files > 0 ? options_.disk.files : usual.files};
}

LocalSandbox::~LocalSandbox() {
  {
    base::MutexLock lock(mu_);
    Close();
  }
  freezer_.reset();
  group_.reset();
  opened_ = {};
  folder_.reset();  // before another sandbox gets the uid
}

absl::Status LocalSandbox::Open() {
  OpenOptions open{.uid = uid_ != nullptr ? uid_->uid() : 0,
                   .fake_root = !image_.empty(),
                   .layered = layered_,
                   .work_root = ground_.work_root,
                   .sandbox = path_,
                   .image = image_,
                   .layers = {},
                   .binds = {},
                   .groups = {},
                   .freezer = freezer_.get()};
  for (const auto& layer : layers_) {
    if (layered_) open.layers.push_back(layer->path());
  }
  for (const BindMount& bind : options_.binds) open.binds.push_back(absl::StrCat(bind.folder, "=", bind.at));
  if (group_.has_value()) {
    for (const Fd& entrance : group_->entrances()) open.groups.push_back(entrance.get());
  }
  LaunchFailure failure;
  INGOT_ASSIGN_OR_RETURN(OpenedSandbox opened, ground_.launcher->Open(open, failure));
  if (failure.step != LaunchStep::kNone) {
    return ErrnoStatus(failure.error, absl::StrCat("cannot open a sandbox (", DescribeFailure(failure), ")"));
  }
  opened_ = std::move(opened);
  if (layered_) folder_->SetView(opened_.work.get());
  return absl::OkStatus();
}

void LocalSandbox::Close() {
  if (!opened_.socket.valid()) return;
  AwaitEnd(opened_.socket);
  opened_.socket.Reset();
}

std::string LocalSandbox::InsideUrl(const std::string& url) const {
  const size_t host = url.find("://");
  if (host == std::string::npos) return url;
  const size_t path = url.find('/', host + 3);
  const size_t colon = url.rfind(':', path);
  int port = url.starts_with("https") ? 443 : 80;
  if (colon > host)
    (void)absl::SimpleAtoi(url.substr(colon + 1, path == std::string::npos ? path : path - colon - 1), &port);
  gateway_port_ = port;
  if (!ground_.probe_result.own_network) return url;
  return absl::StrCat(url.substr(0, host + 3), "127.0.0.1:", kInsidePort,
                      path == std::string::npos ? "" : url.substr(path));
}

absl::Status LocalSandbox::WriteFile(const std::string& relative, std::string_view content) {
  return folder_->WriteFile(relative, content);
}

absl::StatusOr<std::string> LocalSandbox::ReadFile(const std::string& relative, int64_t limit_bytes) {
  return folder_->ReadFile(relative, limit_bytes);
}

absl::StatusOr<std::string> LocalSandbox::ReadBound(const std::string& folder, const std::string& relative,
                                                    int64_t limit_bytes) {
  return folder_->ReadFileOf(folder, relative, limit_bytes);
}

absl::Status LocalSandbox::FillBound(const std::string& folder, const std::string& source) {
  return folder_->Fill(folder, source);
}

absl::Status LocalSandbox::ClearBound(const std::string& folder, const std::string& inner) {
  return folder_->ClearFolder(folder, inner);
}

absl::Status LocalSandbox::EnsureOpen() {
  char byte;
  const bool gone = !opened_.socket.valid() || recv(opened_.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  if (!gone) return absl::OkStatus();
  opened_ = {};
  return Open();
}

StartOptions LocalSandbox::StartOf(const Command& command, const Limits& limits) const {
  const bool counts_processes = uid_ != nullptr || ground_.probe_result.user_namespace;
  StartOptions start{.checks = false,
                     .runs_stdin = command.program >= 0,
                     .stays = false,
                     .gateway_port = gateway_port_,
                     .working_dir = command.working_dir,
                     .path = SearchPath(command.env),
                     .arguments = command.argv,
                     .variables = {},
                     .limits = LaunchLimits(limits, counts_processes ? ground_.options.totals.processes : 0)};
  for (const auto& [name, value] : command.env) start.variables.push_back(absl::StrCat(name, "=", value));
  return start;
}

absl::StatusOr<Outcome> LocalSandbox::Run(const Command& command, const Limits& limits, const Cancellation* cancel) {
  INGOT_RETURN_IF_ERROR(limits.Validate());
  INGOT_RETURN_IF_ERROR(CheckCommand(command));
  if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("canceled before it started");
  const StartOptions start = StartOf(command, limits);
  {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(EnsureOpen());
    runs_ = true;
  }
  DiskWatch disk(path_, disk_limits(),
                 {.first = opened_.first, .uid = uid_ != nullptr ? std::optional(uid_->uid()) : std::nullopt});
  // With a control group, the kernel enforces the limit.
  MemoryWatch memory(group_.has_value() ? 0 : opened_.first, TotalsOf(options_, ground_.options).memory_bytes);
  const int64_t kills = MemoryKills();
  LaunchFailure failure;
  auto outcome = RunInOpenSandbox(opened_.socket, start, command, limits, cancel, {&disk, &memory}, failure);
  if (outcome.ok()) {
    outcome->memory_kills = MemoryKills() - kills;
    const bool was_killed = outcome->ending == Ending::kSignalled && outcome->signal == SIGKILL;
    if (was_killed && outcome->memory_kills > 0) outcome->ending = Ending::kMemoryFull;
  }
  {
    base::MutexLock lock(mu_);
    runs_ = false;
    // Companions end with a command that ran, but not with one that could not start.
    if (!outcome.ok() || failure.step == LaunchStep::kNone) has_companions_ = false;
  }
  if (outcome.ok() && failure.step != LaunchStep::kNone) return NotStarted(failure, command);
  return outcome;
}

// Returns whether the sandbox's commands may have changed the program, because it is in the sandbox's folders or in the
// image.
bool LocalSandbox::MayHaveChanged(const Command& command) const {
  const std::string& name = command.argv[0];
  std::vector<std::string> places;
  if (name.find('/') != std::string::npos) {
    places.push_back(name.starts_with('/') ? name : absl::StrCat(command.working_dir, "/", name));
  } else {
    for (const absl::string_view folder : absl::StrSplit(SearchPath(command.env), ':'))
      places.push_back(absl::StrCat(folder, "/", name));
  }
  std::error_code none;
  // A pristine sandbox has the unchanged image, except for one folder.
  const auto is_of_image = [&](const std::string& place) {
    if (image_.empty() || !fs::exists(image_ + PlaceIn(image_, place), none)) return false;
    if (!options_.is_pristine) return true;
    return !options_.kept_folder.empty() &&
           PlaceIn(image_, place).starts_with(PlaceIn(image_, options_.kept_folder) + "/");
  };
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    const auto is_below = [&](const std::string& folder) { return place.starts_with(folder + "/"); };
    const bool is_bound = std::any_of(options_.binds.begin(), options_.binds.end(), [&](const BindMount& bind) {
      return bind.folder == "work" && is_below(bind.at);
    });
    return is_bound || is_below(path_) || is_of_image(place);
  });
}

absl::Status LocalSandbox::NotStarted(const LaunchFailure& failure, const Command& command) const {
  absl::Status status = FailureStatus(failure, command);
  return failure.step == LaunchStep::kExec && MayHaveChanged(command) ? AsSandboxFault(std::move(status)) : status;
}

absl::StatusOr<std::string> LocalSandbox::AddFolder(const std::string& name) {
  auto made = folder_->AddFolder(name);
  return made.ok() ? std::move(made) : absl::StatusOr<std::string>(FolderFault(made.status()));
}

absl::StatusOr<Companion> LocalSandbox::StartCompanion(const Command& command, const Limits& limits) {
  INGOT_RETURN_IF_ERROR(limits.Validate());
  INGOT_RETURN_IF_ERROR(CheckCommand(command));
  StartOptions start = StartOf(command, limits);
  start.stays = true;
  INGOT_ASSIGN_OR_RETURN(const Fd folder, OpenFolder());
  Companion companion;
  INGOT_ASSIGN_OR_RETURN(companion.output, logs_.Add(folder));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot create a pipe");
  const Fd input(ends[0]);
  companion.input = Fd(ends[1]);
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(EnsureOpen());
  const int output = companion.output.get();
  INGOT_ASSIGN_OR_RETURN(const Fd control, StartIn(opened_.socket, start, {input.get(), output, output}));
  LaunchReport report;
  if (recv(control.get(), &report, sizeof(report), 0) != sizeof(report)) {
    return absl::UnavailableError("the first process of the agent's sandbox was killed");
  }
  if (report.failure.step != LaunchStep::kNone) return FailureStatus(report.failure, command);
  has_companions_ = true;
  return companion;
}

absl::StatusOr<Fd> LocalSandbox::NewSocket() {
  if (!ground_.probe_result.own_network) {
    Fd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!made.valid()) return ErrnoStatus(errno, "cannot create a socket");
    return made;
  }
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(EnsureOpen());
  return SocketOf(opened_.socket);
}

absl::StatusOr<std::string> LocalSandbox::KeepFolders(const std::string& name,
                                                      const std::map<std::string, std::string>& beside) {
  for (const auto& [file, content] : beside) INGOT_RETURN_IF_ERROR(folder_->WriteNextToWork(file, content));
  {
    base::MutexLock lock(mu_);
    Close();
  }
  INGOT_ASSIGN_OR_RETURN(const Fd folder, OpenFolder());
  logs_.Name(folder, path_);
  return folder_->Detach(name);
}

}  // namespace ingot::sandbox
