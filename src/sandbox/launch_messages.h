// Defines the messages between Ingot, the launcher (launcher/main.cc), and the first process of a sandbox
// (launcher/sandbox_init.cc). The launcher is a separate, statically linked program without the C++ library, so this
// header defines only plain values.
//
//   Ingot ── SetUp ──▶ launcher ── Report ──▶ Ingot           once, before any sandbox
//   Ingot ── Open ──▶ launcher ── clone ──▶ sandbox's first process ── Report ──▶ Ingot  over the sandbox's own socket
//   Ingot ── Start ──▶ sandbox's first process ── vfork ──▶ command ── Report ──▶ Ingot  over the start's own socket
//   Ingot ──── kTerminate, kKill, end of file ──▶ sandbox's first process                on the start's own socket
//   Ingot ──── kSocket ──▶ sandbox's first process ── kSocket, a socket ──▶ Ingot        over the sandbox's own socket
//
// The sockets preserve message boundaries (SOCK_SEQPACKET). SetUp, Open, and Start are sent as one byte with
// descriptors. The first descriptor is an in-memory file with a header and NUL-terminated strings. Start messages
// contain keys. Only the sandbox's first process reads Start messages. The launcher never receives them. The first
// process exits when the sandbox's socket closes.
#pragma once

#include <cstdint>

namespace ingot::sandbox {

// Parts of a sandbox's isolation, as bits.
enum IsolationPart : uint32_t {
  kOwnUid = 1 << 0,
  kUserNamespace = 1 << 1,
  kPidNamespace = 1 << 2,
  kMountNamespace = 1 << 3,
  kPrivateProc = 1 << 4,
  kKeepsCapabilities = 1 << 5,  // not a protection but a weakness: commands keep capabilities and may gain more
  kNetNamespace = 1 << 6,       // the loopback interface has only the gateway's listener
  kRootFolder = 1 << 7,  // a read-only root folder that contains only what SetUp shows; also separate IPC and host name
  kSeccomp = 1 << 8,     // the system call filter from SetUp
  kLandlock = 1 << 9,    // restricts files, TCP ports, signals, and abstract sockets if there are no namespaces
};

// The steps of a launch, in order. A failure includes its step.
enum class LaunchStep : int32_t {
  kNone,           // no failure
  kMessage,        // the message or its file is malformed
  kGroup,          // a control group, given by `index`; -1 = the group that commands enter
  kNamespaces,     // clone or unshare
  kIdMap,          // a user namespace's id maps
  kMounts,         // mounts in the new mount namespace
  kHide,           // a hidden path, given by `index`
  kRoot,           // the root folder
  kLayers,         // overlayfs layers of the sandbox's folders or its image
  kProc,           // the private /proc
  kFolder,         // the sandbox's folder
  kNetwork,        // the loopback interface and its listener
  kSession,        // the command's descriptors and session
  kUid,            // uid, gid, and groups
  kLimit,          // a resource limit
  kFilter,         // seccomp
  kLandlockRules,  // Landlock
  kWorkingFolder,  // the command's working directory
  kExec,           // the program
  kReach,          // a path to check, given by `index`
};

struct LaunchFailure {
  LaunchStep step = LaunchStep::kNone;
  int32_t error = 0;  // errno
  int32_t index = 0;
};

// Followed by the work root, `hidden` strings ("d" + folder path, or "f" + file path), `visible` paths, `sources`
// paths, and the filter.
struct SetUpHeader {
  uint32_t isolation = 0;
  uint32_t hidden = 0;
  uint32_t visible = 0;       // paths that sandboxes see read-only
  uint32_t sources = 0;       // paths that are, or contain, image root folders
  uint32_t filter_bytes = 0;  // size of an array of struct sock_filter
  uint32_t left_out = 0;      // a Measure to skip, for tests; 0 = none
};
// Descriptors in a SetUp message: the file.
inline constexpr int kSetUpDescriptors = 1;
inline constexpr uint32_t kMaxFilterBytes = 32768;

// The gateway's port in sandboxes that have their own network.
inline constexpr int kInsidePort = 7411;

// Followed by the work root, the sandbox folder ("" = none), its image's root folder ("" = use the launcher's),
// `layers` paths from top to bottom, and `binds` strings "FOLDER=PATH". A layer has work/ and home/, and root/ for an
// image. With layers, the sandbox's folders show the layers' files, and changes are stored in upper/.
struct SandboxHeader {
  uint32_t uid = 0;        // kOwnUid: the sandbox's uid and gid
  uint32_t fake_root = 0;  // 1 = commands see their uid as 0
  uint32_t layers = 0;
  uint32_t layered = 0;    // 1 = work/ and home/ are overlays even if there are no layers
  uint32_t binds = 0;      // sandbox folders that also appear at another path
  uint32_t shm_bytes = 0;  // size of /dev/shm
  uint32_t freezer = 0;    // version of the control group that commands enter to be frozen; 0 = none
};
// Descriptors in an Open message: the file, the sandbox's socket, and up to four files to which the first process
// writes to enter control groups. With a freezer, there are two more: the file to which each command writes to enter
// its group, and the file that thaws frozen commands.
inline constexpr int kMaxGroups = 4;
inline constexpr int kFreezerDescriptors = 2;
inline constexpr int kOpenDescriptors = 2;

struct LaunchLimit {
  int32_t resource = 0;  // RLIMIT_*
  uint64_t value = 0;
};
inline constexpr int kMaxLaunchLimits = 6;

// Followed by the working directory, PATH, `arguments` strings, and `variables` strings.
struct StartHeader {
  // 1 = executes nothing; the arguments are paths to check: "r" + path for reading, or "x" + path for executing.
  uint32_t checks = 0;
  uint32_t runs_stdin = 0;  // 1 = executes the file that is stdin instead of the first argument
  // 1 = reports immediately; the command ends along with the next command that does not set this
  uint32_t stays = 0;
  uint32_t gateway_port = 0;  // kLandlock: the only TCP port that the command may connect to
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint32_t limits = 0;
  LaunchLimit limit[kMaxLaunchLimits];
};
// Descriptors in a Start message: the file, stdin, stdout, stderr, and the start's socket.
inline constexpr int kStartDescriptors = 5;

// The response to a SetUp or an Open, and the result of a Start. The response to an Open includes descriptors: the
// listener if there is one, then work/ and home/ if they are layered.
struct LaunchReport {
  LaunchFailure failure;  // set if the command did not run
  int32_t wait_status = 0;
  int64_t cpu_ns = 0;  // CPU time of the command's first process and the descendants it waited for
  int64_t max_rss_kib = 0;
};
inline constexpr int kMaxReportDescriptors = 3;

// Bytes that Ingot sends over a start's socket.
inline constexpr char kTerminate = 'T';  // sends SIGTERM to every process of the sandbox
inline constexpr char kKill = 'K';       // kills every process of the sandbox; the report follows
// Byte that Ingot sends over a sandbox's socket between commands. The response is kSocket with a TCP socket in the
// sandbox's network that is neither bound nor connected.
inline constexpr char kSocket = 'N';

}  // namespace ingot::sandbox
