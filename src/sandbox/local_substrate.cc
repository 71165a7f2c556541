#include "sandbox/process_substrate.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "sandbox/running_command.h"
#include "sandbox/workdir.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr char kUidLocks[] = "/run/ingot-uids";

// A check of a start is short.
Limits CheckLimits() {
  Limits limits;
  limits.wall_time = std::chrono::seconds(30);
  return limits;
}

// The command's stdin is a file in memory, not a pipe: nobody has to feed it. A command that does not read it raises no
// SIGPIPE here.
absl::StatusOr<Fd> StdinFor(const std::string& text) {
  if (text.empty()) {
    Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");
    return null;
  }
  Fd memory(memfd_create("ingot-stdin", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoStatus(errno, "cannot make a file in memory for stdin");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(memory.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return ErrnoStatus(errno, "cannot write the text for stdin");
    done += static_cast<size_t>(wrote);
  }
  lseek(memory.get(), 0, SEEK_SET);
  return memory;
}

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  Pipe pipe{Fd(fds[0]), Fd(fds[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

std::vector<LaunchLimit> LaunchLimits(const Limits& limits) {
  std::vector<LaunchLimit> list = {{RLIMIT_CORE, 0}};
  const auto add = [&list](int resource, int64_t value) {
    if (value > 0) list.push_back({resource, static_cast<uint64_t>(value)});
  };
  add(RLIMIT_AS, limits.memory_bytes);
  add(RLIMIT_NOFILE, limits.open_files);
  add(RLIMIT_CPU, limits.cpu_seconds);
  add(RLIMIT_FSIZE, limits.file_bytes);
  return list;
}

// The status of a command that did not start.
absl::Status FailureStatus(const LaunchFailure& failure, const Command& command) {
  const std::string& name = command.argv[0];
  switch (failure.step) {
    case LaunchStep::kWorkingFolder:
      return ErrnoStatus(failure.error, absl::StrCat("cannot enter the working folder '", command.working_dir,
                                                     "' to run '", name, "'"));
    case LaunchStep::kExec:
      if (name.find('/') != std::string::npos)
        return ErrnoStatus(failure.error, absl::StrCat("cannot execute '", name, "'"));
      if (failure.error == ENOENT) {
        return absl::NotFoundError(absl::StrCat("no executable '", name, "' in PATH=", SearchPath(command.env)));
      }
      return ErrnoStatus(failure.error, absl::StrCat("cannot execute '", name, "' of PATH=", SearchPath(command.env)));
    default:
      return ErrnoStatus(failure.error, absl::StrCat("cannot start '", name, "' (", DescribeFailure(failure), ")"));
  }
}

absl::StatusOr<Outcome> RunStart(Launcher& launcher, const StartOptions& start, const std::string& stdin_text,
                                 const Limits& limits, const Cancellation* cancel, LaunchFailure& failure) {
  INGOT_ASSIGN_OR_RETURN(Fd in, StdinFor(stdin_text));
  INGOT_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  INGOT_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  INGOT_ASSIGN_OR_RETURN(Fd control, launcher.Start(start, {in.get(), out.write.get(), err.write.get()}));
  out.write.Reset();
  err.write.Reset();
  return RunningCommand(std::move(control), std::move(out.read), std::move(err.read)).RunToEnd(limits, cancel, failure);
}

std::string Octal(mode_t mode) {
  return absl::StrCat("0", absl::Hex(mode >> 6 & 7), absl::Hex(mode >> 3 & 7), absl::Hex(mode & 7));
}

// The first part of an absolute path that other users cannot pass, or the path itself.
std::string ClosedPart(const std::string& path) {
  fs::path part;
  struct stat info;
  for (const fs::path& name : fs::path(path)) {
    part /= name;
    if (stat(part.c_str(), &info) != 0) break;
    if (S_ISDIR(info.st_mode) && (info.st_mode & S_IXOTH) == 0) {
      return absl::StrCat(part.string(), " has mode ", Octal(info.st_mode));
    }
  }
  return stat(path.c_str(), &info) == 0 ? absl::StrCat("it has mode ", Octal(info.st_mode)) : "it is not there";
}

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || (path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/'));
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole.string();
}

// The part of `walls` that a failed step belongs to; 0 = none, or the machine is short of something.
uint32_t RefusedPart(const LaunchFailure& failure, uint32_t walls) {
  if (failure.error == EAGAIN || failure.error == ENOMEM || failure.error == EMFILE || failure.error == ENFILE)
    return 0;
  constexpr uint32_t kNamespaces = kPidNamespace | kMountNamespace;
  const uint32_t user = walls & kUserNamespace;
  switch (failure.step) {
    case LaunchStep::kNamespaces:
      return user != 0 ? user : walls & kNamespaces;
    case LaunchStep::kIdMap:
      return user;
    case LaunchStep::kMounts:
    case LaunchStep::kHide:
    case LaunchStep::kFolder:
      return walls & kMountNamespace;
    case LaunchStep::kProc:
      return walls & kPrivateProc;
    case LaunchStep::kUid:
      return walls & kOwnUid;
    default:
      return 0;
  }
}

std::string PartName(uint32_t part) {
  if (part == kOwnUid) return "a uid per room";
  if (part == kUserNamespace) return "a user namespace";
  if (part == kPrivateProc) return "a private /proc";
  return part == kMountNamespace ? "a mount namespace" : "PID and mount namespaces";
}

struct Wish {
  std::string program;  // Program::name
  std::string path;
  bool executes = false;
};

// The paths that the programs name and that are there for this process. The others are no matter of rights.
std::vector<Wish> Wishes(const std::vector<Program>& programs) {
  std::vector<Wish> wishes;
  for (const Program& program : programs) {
    if (program.argv.empty()) continue;
    const std::string& name = program.argv[0];
    if (name.starts_with('/')) {
      if (access(name.c_str(), X_OK) == 0) wishes.push_back({program.name, name, true});
    } else if (name.find('/') == std::string::npos) {
      const std::string path = program.path.empty() ? SearchPath({}) : program.path;
      for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path, ':'))) {
        const std::string candidate = absl::StrCat(folder, "/", name);
        if (folder.starts_with('/') && access(candidate.c_str(), X_OK) == 0) {
          wishes.push_back({program.name, candidate, true});
          break;
        }
      }
    }
    for (size_t i = 1; i < program.argv.size(); ++i) {
      const std::string& path = program.argv[i];
      struct stat info;
      if (!path.starts_with('/') || stat(path.c_str(), &info) != 0) continue;
      wishes.push_back({program.name, path, S_ISDIR(info.st_mode)});
    }
  }
  return wishes;
}

absl::Status CheckNotHidden(const SubstrateOptions& options) {
  for (const Program& program : options.programs) {
    for (const std::string& argument : program.argv) {
      if (!argument.starts_with('/')) continue;
      for (const std::string& hidden : options.hidden) {
        if (!IsWithin(Canonical(argument), Canonical(hidden))) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            program.name, " names ", argument, ", which agents cannot see: ", hidden,
            " has tasks, records or keys of the run. Give the agent a copy of what it may know, elsewhere"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

class ProcessRoom final : public Room {
 public:
  ProcessRoom(ProcessSubstrate& substrate, WorkDir folder, std::optional<int64_t> uid)
      : substrate_(substrate),
        uid_(uid),
        path_(folder.path()),
        work_(folder.work()),
        home_(folder.home()),
        tmp_(folder.tmp()),
        folder_(std::move(folder)) {}
  ~ProcessRoom() override {
    folder_.reset();  // before another room gets the uid
    if (uid_.has_value()) substrate_.uids_->Give(*uid_);
  }

  const std::string& work() const override { return work_; }
  const std::string& home() const override { return home_; }
  const std::string& tmp() const override { return tmp_; }
  std::string InsideUrl(const std::string& url) const override { return url; }  // rooms share the network

  absl::Status WriteFile(const std::string& relative, std::string_view content) override {
    return folder_->WriteFile(relative, content);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) override {
    return folder_->ReadFile(relative, limit_bytes);
  }
  absl::StatusOr<std::string> AddFolder(const std::string& name) override { return folder_->AddFolder(name); }

  absl::StatusOr<Outcome> Run(const Command& command, const Limits& limits, const Cancellation* cancel) override {
    INGOT_RETURN_IF_ERROR(limits.Validate());
    INGOT_RETURN_IF_ERROR(CheckCommand(command));
    if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("cancelled before it was started");
    StartOptions start{.uid = uid_.value_or(0),
                       .checks = false,
                       .work_root = substrate_.work_root_,
                       .room = path_,
                       .working_dir = command.working_dir,
                       .path = SearchPath(command.env),
                       .arguments = command.argv,
                       .variables = {},
                       .limits = LaunchLimits(limits)};
    for (const auto& [name, value] : command.env) start.variables.push_back(absl::StrCat(name, "=", value));
    LaunchFailure failure;
    auto outcome = RunStart(*substrate_.launcher_, start, command.stdin_text, limits, cancel, failure);
    if (outcome.ok() && failure.step != LaunchStep::kNone) return FailureStatus(failure, command);
    return outcome;
  }

  absl::StatusOr<std::string> Keep(const std::string& name, const std::map<std::string, std::string>& beside) override {
    for (const auto& [file, content] : beside) INGOT_RETURN_IF_ERROR(folder_->WriteBeside(file, content));
    return folder_->Detach(name);
  }

 private:
  ProcessSubstrate& substrate_;
  const std::optional<int64_t> uid_;
  const std::string path_, work_, home_, tmp_;
  std::optional<WorkDir> folder_;
};

absl::StatusOr<std::unique_ptr<ProcessSubstrate>> ProcessSubstrate::Make(const SubstrateOptions& options,
                                                                         uint32_t refused) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_RETURN_IF_ERROR(CheckNotHidden(options));
  std::error_code error;
  fs::create_directories(options.work_root, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make agents.work_root ", options.work_root, ": ", error.message()));
  }
  if (const int removed = RemoveStale(options.work_root); removed > 0) {
    INGOT_LOG(info, "removed {} work folders that an earlier run left in {}", removed, options.work_root);
  }
  struct stat info;
  if (stat(options.work_root.c_str(), &info) == 0 && info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::FailedPreconditionError(absl::StrCat("agents.work_root ", options.work_root, " belongs to uid ",
                                                      info.st_uid, ", who could change agents' files: name another"));
  }
  std::unique_ptr<ProcessSubstrate> substrate(new ProcessSubstrate(options));
  substrate->work_root_ = Canonical(options.work_root);
  std::ifstream users("/etc/passwd");
  for (std::string line; std::getline(users, line);) absl::StrAppend(&substrate->known_users_, line, "\n");
  INGOT_RETURN_IF_ERROR(substrate->Probe(refused));
  return substrate;
}

absl::Status ProcessSubstrate::Probe(uint32_t refused) {
  const bool is_root = geteuid() == 0;
  if (options_.agent_uid == "shared") refused |= kOwnUid;
  if (!is_root) {
    refused |= kOwnUid;
    if (options_.agent_uid != "shared") grant_.refused.push_back("a uid per room (ingot is not root)");
  }
  constexpr uint32_t kNamespaces = kPidNamespace | kMountNamespace;
  std::vector<uint32_t> sets = {kOwnUid | kNamespaces | kPrivateProc, kOwnUid | kNamespaces, kOwnUid | kPidNamespace,
                                kOwnUid};
  if (options_.agent_uid != "own") {
    const uint32_t keeps = options_.agent_uid == "shared" ? uint32_t{kKeepsCapabilities} : 0;
    const uint32_t user = is_root ? 0 : uint32_t{kUserNamespace};
    sets.insert(sets.end(), {user | kNamespaces | kPrivateProc | keeps, user | kNamespaces | keeps, keeps});
  }
  for (const uint32_t walls : sets) {
    if ((walls & refused) != 0) continue;
    INGOT_ASSIGN_OR_RETURN(const Refusal refusal, Try(walls));
    if (refusal.part == 0) {
      grant_.own_uid = (walls & kOwnUid) != 0;
      grant_.first_uid = grant_.own_uid ? options_.uid_base : 0;
      grant_.user_namespace = (walls & kUserNamespace) != 0;
      grant_.pid_namespace = (walls & kPidNamespace) != 0;
      grant_.mount_namespace = (walls & kMountNamespace) != 0;
      grant_.private_proc = (walls & kPrivateProc) != 0;
      return absl::OkStatus();
    }
    refused |= refusal.part;
    grant_.refused.push_back(absl::StrCat(PartName(refusal.part), " (", refusal.reason, ")"));
    launcher_.reset();
    uids_.reset();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("agents cannot be started with sandbox.agent_uid: ", options_.agent_uid,
                   ". Not granted: ", absl::StrJoin(grant_.refused, "; ")));
}

absl::StatusOr<ProcessSubstrate::Refusal> ProcessSubstrate::Try(uint32_t walls) {
  std::optional<int64_t> uid;
  if ((walls & kOwnUid) != 0) {
    if (const absl::Status opened = OpenUids(); !opened.ok()) return Refusal{kOwnUid, std::string(opened.message())};
    INGOT_ASSIGN_OR_RETURN(uid, uids_->Take());
  }
  LaunchFailure failure;
  auto launcher = Launcher::Make({.walls = walls, .hidden = options_.hidden}, failure);
  const uint32_t part = RefusedPart(failure, walls);
  if (!launcher.ok() && part != 0) return Refusal{part, DescribeFailure(failure)};
  INGOT_RETURN_IF_ERROR(launcher.status());
  launcher_ = *std::move(launcher);
  absl::StatusOr<Refusal> refusal = CheckReach(walls, uid.value_or(0));
  if (uid.has_value()) uids_->Give(*uid);
  return refusal;
}

absl::Status ProcessSubstrate::OpenUids() {
  auto uids = UidRange::Open(options_.uid_base, kUidLocks);
  if (!uids.ok()) uids = UidRange::Open(options_.uid_base, work_root_ + "/uids");  // no /run, or read-only
  INGOT_RETURN_IF_ERROR(uids.status());
  uids_ = *std::move(uids);
  struct stat info;
  if (stat(work_root_.c_str(), &info) == 0 && info.st_uid == geteuid() && (info.st_mode & S_IXOTH) == 0) {
    chmod(work_root_.c_str(), (info.st_mode & 07777) | S_IXGRP | S_IXOTH);  // rooms pass it; its entries stay private
  }
  return absl::OkStatus();
}

absl::StatusOr<ProcessSubstrate::Refusal> ProcessSubstrate::CheckReach(uint32_t walls, int64_t uid) {
  std::vector<Wish> wishes = Wishes(options_.programs);
  wishes.push_back({"agents.work_root", work_root_, true});
  StartOptions start{.uid = uid,
                     .checks = true,
                     .work_root = work_root_,
                     .room = "",
                     .working_dir = "",
                     .path = "",
                     .arguments = {},
                     .variables = {},
                     .limits = {}};
  for (const Wish& wish : wishes) start.arguments.push_back((wish.executes ? "x" : "r") + wish.path);
  LaunchFailure failure;
  const auto outcome = RunStart(*launcher_, start, "", CheckLimits(), nullptr, failure);
  INGOT_RETURN_IF_ERROR(outcome.status());
  if (failure.step == LaunchStep::kNone) return Refusal{};
  if (failure.step != LaunchStep::kReach) {
    const uint32_t part = RefusedPart(failure, walls);
    if (part == 0)
      return ErrnoStatus(failure.error, absl::StrCat("cannot start agents (", DescribeFailure(failure), ")"));
    return Refusal{part, DescribeFailure(failure)};
  }
  const Wish& wish = wishes[static_cast<size_t>(failure.index)];
  const std::string reason =
      absl::StrCat(wish.program, ": ", (walls & kOwnUid) != 0 ? absl::StrCat("uid ", uid) : "a room", " cannot ",
                   wish.executes ? "enter or execute " : "read ", wish.path, ": ", ClosedPart(wish.path),
                   "; chmod o+x opens a folder");
  if ((walls & kOwnUid) != 0) return Refusal{kOwnUid, reason};
  return absl::FailedPreconditionError(reason);
}

absl::StatusOr<std::unique_ptr<Room>> ProcessSubstrate::Prepare() {
  std::optional<int64_t> uid;
  if (uids_ != nullptr) {
    INGOT_ASSIGN_OR_RETURN(uid, uids_->Take());
  }
  const auto owner = uid.has_value() ? std::optional(static_cast<uid_t>(*uid)) : std::nullopt;
  absl::StatusOr<WorkDir> folder = WorkDir::Create(work_root_, owner);
  absl::Status made = folder.status();
  if (made.ok() && uid.has_value() && grant_.mount_namespace) {
    const std::string line = absl::StrCat("agent:x:", *uid, ":", *uid, "::", folder->home(), ":/bin/sh\n");
    made = folder->WriteBeside("passwd", known_users_ + line);  // launcher/wall.h, NameUid
    chmod((folder->path() + "/passwd").c_str(), 0644);          // whatever the umask
  }
  if (!made.ok()) {
    if (uid.has_value()) uids_->Give(*uid);
    return made;
  }
  return std::make_unique<ProcessRoom>(*this, *std::move(folder), uid);
}

}  // namespace ingot::sandbox
