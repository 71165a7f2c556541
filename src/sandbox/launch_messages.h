// The messages between Ingot, the launcher (launcher/main.cc) and the first process of a sandbox
// (launcher/sandbox_init.cc). The launcher is a separate program, linked statically and without the C++ library, so
// this header has only plain values.
//
//   Ingot ── SetUp ──▶ launcher ── Report ──▶ Ingot           once, before any sandbox
//   Ingot ── Open ──▶ launcher ── clone ──▶ sandbox's first process ── Report ──▶ Ingot  over the sandbox's own socket
//   Ingot ── Start ──▶ sandbox's first process ── vfork ──▶ command ── Report ──▶ Ingot  over the start's own socket
//   Ingot ──── kTerminate, kKill, end of file ──▶ sandbox's first process                of the start's own socket
//   Ingot ──── kSocket ──▶ sandbox's first process ── kSocket, a socket ──▶ Ingot        over the sandbox's own socket
//
// Sockets keep message boundaries (SOCK_SEQPACKET). SetUp, Open and Start travel as one byte with descriptors. The
// first descriptor is a file in memory: a header, then strings, each with its NUL. The launcher never sees a Start:
// only the sandbox's first process reads the keys in it. That process ends with the sandbox's socket.
#pragma once

#include <cstdint>

namespace ingot::sandbox {

// The parts of the wall around each sandbox. A set of bits.
enum WallPart : uint32_t {
  kOwnUid = 1 << 0,
  kUserNamespace = 1 << 1,
  kPidNamespace = 1 << 2,
  kMountNamespace = 1 << 3,
  kPrivateProc = 1 << 4,
  kKeepsCapabilities = 1 << 5,  // a hole, not a part: commands keep capabilities and may gain more
  kNetNamespace = 1 << 6,       // the loopback interface has one listener, the gateway's
  kRootFolder =
      1 << 7,  // a root folder with what SetUp shows, read-only, and nothing else; IPC and host name are the sandbox's
  kSeccomp = 1 << 8,   // SetUp's filter of system calls
  kLandlock = 1 << 9,  // files, TCP ports, signals and abstract sockets, if there are no namespaces
};

// The steps of a start, in order. A failure names its step.
enum class LaunchStep : int32_t {
  kNone,           // no failure
  kMessage,        // the message or its file is malformed
  kGroup,          // a control group; `index` counts them, -1 = the group that commands enter
  kNamespaces,     // clone or unshare
  kIdMap,          // ids of a user namespace
  kMounts,         // mounts of the own mount namespace
  kHide,           // a hidden path; `index` counts them
  kRoot,           // the root folder
  kLayers,         // layers of the sandbox's folders or of its image (overlayfs)
  kProc,           // the private /proc
  kFolder,         // the sandbox's folder
  kNetwork,        // the loopback interface and its listener
  kSession,        // descriptors and session of the command
  kUid,            // uid, gid and groups
  kLimit,          // a resource limit
  kFilter,         // seccomp
  kLandlockRules,  // Landlock
  kWorkingFolder,  // the command's working folder
  kExec,           // the program
  kReach,          // a path that a check asked for; `index` counts them
};

struct LaunchFailure {
  LaunchStep step = LaunchStep::kNone;
  int32_t error = 0;  // errno
  int32_t index = 0;
};

// Follows: the work root; `hidden` strings, "d" + path of a folder or "f" + path of a file; `visible` paths; `sources`
// paths; the filter.
struct SetUpHeader {
  uint32_t walls = 0;
  uint32_t hidden = 0;
  uint32_t visible = 0;       // paths that sandboxes see, read-only
  uint32_t sources = 0;       // paths at or below which root folders of images may lie
  uint32_t filter_bytes = 0;  // a program of struct sock_filter
  uint32_t left_out = 0;      // a Measure, for tests; 0 = none
};
// Descriptors of a SetUp: the file.
inline constexpr int kSetUpDescriptors = 1;
inline constexpr uint32_t kMostFilterBytes = 32768;

// The gateway's port inside a sandbox with its own network.
inline constexpr int kInsidePort = 7411;

// Follows: work root, sandbox folder ("" = none), root folder of its image ("" = the launcher's), then `layers` paths,
// the top one first, then `binds` strings "FOLDER=PATH". A layer has work/ and home/, and root/ for an image. With
// layers, the sandbox's folders show the layers' files and take changes in upper/.
struct SandboxHeader {
  uint32_t uid = 0;        // kOwnUid: of the sandbox, as uid and gid
  uint32_t fake_root = 0;  // 1 = commands see their uid as 0
  uint32_t layers = 0;
  uint32_t layered = 0;    // 1 = work/ and home/ are overlays, even without a layer
  uint32_t binds = 0;      // folders of the sandbox that also appear at another path
  uint32_t shm_bytes = 0;  // of /dev/shm
  uint32_t freezer = 0;    // version of the control group that commands enter and that freezes them; 0 = none
};
// Descriptors of an Open: the file, the sandbox's socket, then up to four files that the first process writes itself
// into. With a freezer two more: the file that each command writes itself into, and the file that thaws frozen
// commands.
inline constexpr int kMostGroups = 4;
inline constexpr int kFreezerDescriptors = 2;
inline constexpr int kOpenDescriptors = 2;

struct LaunchLimit {
  int32_t resource = 0;  // RLIMIT_*
  uint64_t value = 0;
};
inline constexpr int kMostLaunchLimits = 6;

// Follows: working folder, PATH, then `arguments` and `variables` strings.
struct StartHeader {
  // 1 = nothing is executed: the arguments are paths to check, "r" + path to read or "x" + path to execute.
  uint32_t checks = 0;
  uint32_t runs_stdin = 0;    // 1 = the file that is stdin is executed in place of the first argument
  uint32_t stays = 0;         // 1 = reports at once; the command ends with the next command that does not stay
  uint32_t gateway_port = 0;  // kLandlock: the only TCP port that the command may connect to
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint32_t limits = 0;
  LaunchLimit limit[kMostLaunchLimits];
};
// Descriptors of a Start: the file, stdin, stdout, stderr, the start's socket.
inline constexpr int kStartDescriptors = 5;

// The answer to a SetUp or an Open, and the end of a Start. The answer to an Open has descriptors with it: the listener
// if there is one, then work/ and home/ if they are layered.
struct LaunchReport {
  LaunchFailure failure;  // of a command that did not run
  int32_t wait_status = 0;
  int64_t cpu_ns = 0;  // of the command's first process and the descendants that it waited for
  int64_t max_rss_kib = 0;
};
inline constexpr int kMostReportDescriptors = 3;

// Bytes that Ingot sends over the socket of a start.
inline constexpr char kTerminate = 'T';  // SIGTERM to every process of the sandbox
inline constexpr char kKill = 'K';       // the end of all of them; the report follows
// A byte that Ingot sends over the socket of a sandbox between commands: kSocket comes back, with a TCP socket of the
// sandbox's network that is neither bound nor connected.
inline constexpr char kSocket = 'N';

}  // namespace ingot::sandbox
