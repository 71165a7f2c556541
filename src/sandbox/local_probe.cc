// Probes a machine: tries sets of isolation parts, strongest first, each with its own launcher.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_join.h"
#include "sandbox/launcher/landlock.h"
#include "sandbox/local_substrate.h"
#include "sandbox/reach.h"
#include "sandbox/running_command.h"
#include "sandbox/seccomp_filter.h"

namespace ingot::sandbox {
namespace {

constexpr char kUidLocks[] = "/run/ingot-uids";
constexpr uint32_t kNamespaces = kPidNamespace | kMountNamespace;
constexpr uint32_t kStrong = kNamespaces | kPrivateProc | kRootFolder | kSeccomp;

// Returns the limits for a start check, which takes little time.
Limits CheckLimits() {
  Limits limits;
  limits.wall_time = std::chrono::seconds(30);
  return limits;
}

// Returns the part of `isolation` that a failed step belongs to; 0 = none, or the machine lacks resources.
uint32_t RejectedPart(const LaunchFailure& failure, uint32_t isolation) {
  if (failure.error == EAGAIN || failure.error == ENOMEM || failure.error == EMFILE || failure.error == ENFILE)
    return 0;
  const uint32_t user = isolation & kUserNamespace;
  switch (failure.step) {
    case LaunchStep::kNamespaces:
      if ((isolation & kRootFolder) != 0) return kRootFolder;  // one of many
      return user != 0 ? user : isolation & kNamespaces;
    case LaunchStep::kIdMap:
      return user;
    case LaunchStep::kMounts:
    case LaunchStep::kHide:
    case LaunchStep::kFolder:
      return (isolation & kRootFolder) != 0 ? isolation & kRootFolder : isolation & kMountNamespace;
    case LaunchStep::kRoot:
      return isolation & kRootFolder;
    case LaunchStep::kNetwork:
      return isolation & kNetNamespace;
    case LaunchStep::kFilter:
      return isolation & kSeccomp;
    case LaunchStep::kLandlockRules:
      return isolation & kLandlock;
    case LaunchStep::kProc:
      return (isolation & kRootFolder) != 0 ? isolation & kRootFolder : isolation & kPrivateProc;
    case LaunchStep::kUid:
      return isolation & kOwnUid;
    default:
      return 0;
  }
}

std::string PartName(uint32_t part) {
  if (part == kOwnUid) return "a uid per sandbox";
  if (part == kUserNamespace) return "a user namespace";
  if (part == kRootFolder) return "the isolation level namespaces";
  if (part == kNetNamespace) return "a network namespace";
  if (part == kSeccomp) return "a system call filter";
  if (part == kLandlock) return "the isolation level landlock";
  if (part == kPrivateProc) return "a private /proc";
  return part == kMountNamespace ? "a mount namespace" : "PID and mount namespaces";
}

// Landlock covers only TCP. A root folder includes an IPC namespace.
FilterOptions FilterOf(uint32_t isolation) {
  return {.tcp_only = (isolation & kLandlock) != 0, .denies_ipc = (isolation & kRootFolder) == 0};
}

// Returns the sets to try, strongest first, except those that `options` exclude.
std::vector<uint32_t> SetsOf(const SubstrateOptions& options, bool is_root) {
  const bool own = options.agent_uid != "shared" && is_root;
  const bool may_share = options.agent_uid != "own";
  const uint32_t user = is_root ? 0 : uint32_t{kUserNamespace};
  const std::string& most = options.isolation;
  std::vector<uint32_t> sets;
  // Agents that must be root on the machine get no isolation from it.
  if (options.agent_uid != "shared") {
    const uint32_t network = options.network == "none" ? uint32_t{kNetNamespace} : 0;
    if (most == "auto" || most == "full" || most == "namespaces") {
      if (own) sets.push_back(kOwnUid | kStrong | network);
      if (!is_root && may_share) sets.push_back(user | kStrong | network);
    }
    if (most != "process") {
      if (own) sets.push_back(kOwnUid | kLandlock | kSeccomp);
      if (!is_root && may_share) sets.push_back(kLandlock | kSeccomp);
    }
  }
  if (own)
    sets.insert(sets.end(),
                {kOwnUid | kNamespaces | kPrivateProc, kOwnUid | kNamespaces, kOwnUid | kPidNamespace, kOwnUid});
  if (may_share) {
    const uint32_t keeps = options.agent_uid == "shared" ? uint32_t{kKeepsCapabilities} : 0;
    sets.insert(sets.end(), {user | kNamespaces | kPrivateProc | keeps, user | kNamespaces | keeps, keeps});
  }
  return sets;
}

}  // namespace

absl::Status LocalSubstrate::Probe(uint32_t rejected) {
  ProbeResult& probe_result = ground_.probe_result;
  const SubstrateOptions& options = ground_.options;
  const bool is_root = geteuid() == 0;
  if (!is_root && options.agent_uid != "shared")
    probe_result.rejected.push_back("a uid per sandbox (ingot is not root)");
  for (const uint32_t isolation : SetsOf(options, is_root)) {
    if ((isolation & rejected) != 0) continue;
    INGOT_ASSIGN_OR_RETURN(const Rejection rejection, Try(isolation));
    if (rejection.part == 0) return NoteProbeResult(isolation, rejected);
    rejected |= rejection.part;
    probe_result.rejected.push_back(absl::StrCat(PartName(rejection.part), " (", rejection.reason, ")"));
    ground_.launcher.reset();
    ground_.uids.reset();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("agents cannot be started with sandbox.agent_uid: ", options.agent_uid,
                   ". Not granted: ", absl::StrJoin(probe_result.rejected, "; ")));
}

absl::Status LocalSubstrate::NoteProbeResult(uint32_t isolation, uint32_t rejected) {
  ProbeResult& probe_result = ground_.probe_result;
  probe_result.own_uid = (isolation & kOwnUid) != 0;
  probe_result.first_uid = probe_result.own_uid ? ground_.options.uid_base : 0;
  probe_result.user_namespace = (isolation & kUserNamespace) != 0;
  probe_result.pid_namespace = (isolation & kPidNamespace) != 0;
  probe_result.mount_namespace = (isolation & kMountNamespace) != 0;
  probe_result.private_proc = (isolation & kPrivateProc) != 0;
  probe_result.root_folder = (isolation & kRootFolder) != 0;
  probe_result.own_network = (isolation & kNetNamespace) != 0;
  probe_result.seccomp = (isolation & kSeccomp) != 0;
  probe_result.landlock = (isolation & kLandlock) != 0 ? launcher::LandlockVersion() : 0;
  probe_result.isolation = probe_result.root_folder    ? IsolationLevel::kNamespaces
                           : probe_result.landlock > 0 ? IsolationLevel::kLandlock
                                                       : IsolationLevel::kProcess;
  const std::string& most = ground_.options.isolation;
  if (probe_result.root_folder && (most == "auto" || most == "full") && (rejected & kGroupsRejected) == 0) {
    auto groups = ControlGroups::Make();
    if (groups.ok()) {
      ground_.groups = *std::move(groups);
      probe_result.groups = ground_.groups->version();
      probe_result.isolation = IsolationLevel::kFull;
    } else {
      probe_result.rejected.push_back(absl::StrCat("the isolation level full (", groups.status().message(), ")"));
    }
  }
  TryFreezers(rejected);
  if (!probe_result.root_folder) return absl::OkStatus();
  // Tests overlayfs with a layered sandbox.
  probe_result.layers = true;
  SandboxOptions layered;
  layered.takes_snapshots = true;
  const auto sandbox = LocalSandbox::Make(ground_, layered);
  if (sandbox.ok()) return absl::OkStatus();
  probe_result.layers = false;
  probe_result.rejected.push_back(
      absl::StrCat("snapshots without copies, and images (", sandbox.status().message(), ")"));
  return LocalSandbox::Make(ground_, SandboxOptions()).status();
}

void LocalSubstrate::TryFreezers(uint32_t rejected) {
  const bool try1 = (rejected & kFreezer1Rejected) == 0, try2 = (rejected & kFreezer2Rejected) == 0;
  absl::StatusOr<std::unique_ptr<Freezers>> made = absl::FailedPreconditionError("turned off for a test");
  if (try1 || try2) made = Freezers::Make(ground_.probe_result.groups, try1 && try2 ? 0 : try1 ? 1 : 2);
  const absl::Status tried = made.ok() ? TryFreezer(**made) : made.status();
  if (tried.ok()) {
    ground_.freezers = *std::move(made);
    ground_.probe_result.freezer = ground_.freezers->version();
  } else {
    ground_.probe_result.rejected.push_back(absl::StrCat("snapshots of running commands (", tried.message(), ")"));
  }
}

absl::Status LocalSubstrate::TryFreezer(Freezers& freezers) {
  std::optional<ControlGroup> group;
  if (ground_.groups != nullptr) {
    INGOT_ASSIGN_OR_RETURN(ControlGroup made, ground_.groups->NewGroup({}));
    group.emplace(std::move(made));
  }
  INGOT_ASSIGN_OR_RETURN(const auto freezer, freezers.NewFreezer(group.has_value() ? &*group : nullptr));
  LaunchFailure failure;
  OpenOptions open{
      .uid = 0, .work_root = ground_.work_root, .sandbox = "", .image = "", .layers = {}, .binds = {}, .groups = {}};
  if (ground_.uids != nullptr) {
    INGOT_ASSIGN_OR_RETURN(open.uid, ground_.uids->Acquire());
  }
  const UidLease lease(ground_.uids.get(), open.uid);
  if (group.has_value()) {
    for (const Fd& entrance : group->entrances()) open.groups.push_back(entrance.get());
  }
  open.freezer = freezer.get();
  INGOT_ASSIGN_OR_RETURN(const OpenedSandbox sandbox, ground_.launcher->Open(open, failure));
  const StartOptions start{
      .checks = true, .working_dir = "", .path = "", .arguments = {"r/"}, .variables = {}, .limits = {}};
  if (failure.step == LaunchStep::kNone) {
    INGOT_RETURN_IF_ERROR(
        RunInOpenSandbox(sandbox.socket, start, Command(), CheckLimits(), nullptr, {}, failure).status());
  }
  if (failure.step != LaunchStep::kNone) return ErrnoStatus(failure.error, DescribeFailure(failure));
  return freezer->Freeze().status();
}

absl::StatusOr<LocalSubstrate::Rejection> LocalSubstrate::Try(uint32_t isolation) {
  std::optional<int64_t> uid;
  if ((isolation & kOwnUid) != 0) {
    if (const absl::Status opened = OpenUids(); !opened.ok()) return Rejection{kOwnUid, std::string(opened.message())};
    INGOT_ASSIGN_OR_RETURN(uid, ground_.uids->Acquire());
  }
  const SubstrateOptions& options = ground_.options;
  SandboxLauncherOptions launch{.isolation = isolation,
                                .work_root = ground_.work_root,
                                .hidden = options.hidden,
                                .visible = {},
                                .sources = {},
                                .filter = "",
                                .left_out = ground_.left_out};
  if ((isolation & (kRootFolder | kLandlock)) != 0) launch.visible = ShownPaths(options);
  if ((isolation & kRootFolder) != 0) launch.sources = ImageSources(options);
  if ((isolation & kLandlock) != 0) launch.visible = WithoutHidden(launch.visible, options.hidden);
  if ((isolation & kSeccomp) != 0) {
    INGOT_ASSIGN_OR_RETURN(launch.filter, MakeFilter(FilterOf(isolation)));
  }
  LaunchFailure failure;
  auto launcher = SandboxLauncher::Make(std::move(launch), failure);
  const uint32_t part = RejectedPart(failure, isolation);
  if (!launcher.ok() && part != 0) return Rejection{part, DescribeFailure(failure)};
  INGOT_RETURN_IF_ERROR(launcher.status());
  ground_.launcher = *std::move(launcher);
  absl::StatusOr<Rejection> rejection = CheckReach(isolation, uid.value_or(0));
  if (uid.has_value()) ground_.uids->Give(*uid);
  return rejection;
}

absl::Status LocalSubstrate::OpenUids() {
  auto uids = UidRange::Open(ground_.options.uid_base, kUidLocks);
  if (!uids.ok())
    uids = UidRange::Open(ground_.options.uid_base, ground_.work_root + "/uids");  // /run is missing or read-only
  INGOT_RETURN_IF_ERROR(uids.status());
  ground_.uids = *std::move(uids);
  struct stat info;
  if (stat(ground_.work_root.c_str(), &info) == 0 && info.st_uid == geteuid() && (info.st_mode & S_IXOTH) == 0) {
    chmod(ground_.work_root.c_str(),
          (info.st_mode & 07777) | S_IXGRP | S_IXOTH);  // sandboxes traverse it, and its entries stay private
  }
  return absl::OkStatus();
}

absl::StatusOr<LocalSubstrate::Rejection> LocalSubstrate::CheckReach(uint32_t isolation, int64_t uid) {
  std::vector<NeededPath> wishes = NeededPaths(ground_.options.programs);
  wishes.push_back({"agents.work_root", ground_.work_root, true});
  LaunchFailure failure;
  OpenOptions open{
      .uid = uid, .work_root = ground_.work_root, .sandbox = "", .image = "", .layers = {}, .binds = {}, .groups = {}};
  const auto sandbox = ground_.launcher->Open(open, failure);
  INGOT_RETURN_IF_ERROR(sandbox.status());
  StartOptions start{.checks = true, .working_dir = "", .path = "", .arguments = {}, .variables = {}, .limits = {}};
  for (const NeededPath& needed : wishes) start.arguments.push_back((needed.executes ? "x" : "r") + needed.path);
  if (failure.step == LaunchStep::kNone) {
    const auto outcome = RunInOpenSandbox(sandbox->socket, start, Command(), CheckLimits(), nullptr, {}, failure);
    INGOT_RETURN_IF_ERROR(outcome.status());
  }
  if (failure.step == LaunchStep::kNone) return Rejection{};
  if (failure.step != LaunchStep::kReach) {
    const uint32_t part = RejectedPart(failure, isolation);
    if (part == 0)
      return ErrnoStatus(failure.error, absl::StrCat("cannot start agents (", DescribeFailure(failure), ")"));
    return Rejection{part, DescribeFailure(failure)};
  }
  const NeededPath& needed = wishes[static_cast<size_t>(failure.index)];
  const std::string reason =
      absl::StrCat(needed.program, ": ", (isolation & kOwnUid) != 0 ? absl::StrCat("uid ", uid) : "a sandbox",
                   " cannot ", needed.executes ? "enter or execute " : "read ", needed.path, ": ",
                   ClosedPart(needed.path), "; `chmod o+x` makes a folder accessible");
  if ((isolation & (kRootFolder | kLandlock)) != 0) {
    return Rejection{isolation & (kRootFolder | kLandlock),
                     absl::StrCat(reason, ", and sandbox.visible adds a path to sandboxes")};
  }
  if ((isolation & kOwnUid) != 0) return Rejection{kOwnUid, reason};
  return absl::FailedPreconditionError(reason);
}

}  // namespace ingot::sandbox
