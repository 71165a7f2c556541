// The messages between Ingot, the launcher (launcher/main.cc) and the first process of a room (launcher/room.cc). The
// launcher is a program of its own, built static and without the C++ library, so this header has plain values alone.
//
//   Ingot ── SetUp ──▶ launcher ── Report ──▶ Ingot              once, before any start
//   Ingot ── Start ──▶ launcher ── clone ──▶ room's first process ── vfork ──▶ command
//   Ingot ◀── Report ── room's first process                     over the start's own control socket
//   Ingot ──── kTerminate, kKill, end of file ──▶ room's first process
//
// Sockets keep message boundaries (SOCK_SEQPACKET). SetUp and Start travel as one byte with descriptors. The first
// descriptor is a file in memory: a header, then strings, each with its NUL. The launcher never reads a Start's file: the
// room's first process alone sees the keys in it.
#pragma once

#include <cstdint>

namespace ingot::sandbox {

// The parts of the wall around each room. A set of bits.
enum WallPart : uint32_t {
  kOwnUid = 1 << 0,
  kUserNamespace = 1 << 1,
  kPidNamespace = 1 << 2,
  kMountNamespace = 1 << 3,
  kPrivateProc = 1 << 4,
  kKeepsCapabilities = 1 << 5,  // no part but a hole: commands keep capabilities and may gain more
};

// The steps of a start, in order. A failure names its step.
enum class LaunchStep : int32_t {
  kNone,           // no failure
  kMessage,        // the message or its file is malformed
  kNamespaces,     // clone or unshare
  kIdMap,          // ids of a user namespace
  kMounts,         // mounts of the own mount namespace
  kHide,           // a hidden path; `index` counts them
  kProc,           // the private /proc
  kFolder,         // the room's folder
  kSession,        // descriptors and session of the command
  kUid,            // uid, gid and groups
  kLimit,          // a resource limit
  kWorkingFolder,  // the command's working folder
  kExec,           // the program
  kReach,          // a path that a check asked for; `index` counts them
};

struct LaunchFailure {
  LaunchStep step = LaunchStep::kNone;
  int32_t error = 0;  // errno
  int32_t index = 0;
};

// Follows: `hidden` strings, "d" + path of a folder or "f" + path of a file.
struct SetUpHeader {
  uint32_t walls = 0;
  uint32_t hidden = 0;
};
// Descriptors of a SetUp: the file.
inline constexpr int kSetUpDescriptors = 1;

struct LaunchLimit {
  int32_t resource = 0;  // RLIMIT_*
  uint64_t value = 0;
};
inline constexpr int kMostLaunchLimits = 5;

// Follows: work root, room folder, working folder, PATH, then `arguments` and `variables` strings.
struct StartHeader {
  uint32_t uid = 0;  // kOwnUid: of the room, as uid and gid
  // 1 = nothing is executed: the arguments are paths that the command could read ("r" + path) or execute ("x" + path).
  uint32_t checks = 0;
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint32_t limits = 0;
  LaunchLimit limit[kMostLaunchLimits];
};
// Descriptors of a Start: the file, stdin, stdout, stderr, the control socket.
inline constexpr int kStartDescriptors = 5;

// The end of a SetUp or a Start.
struct LaunchReport {
  LaunchFailure failure;  // of a command that did not run
  int32_t wait_status = 0;
  int64_t cpu_ns = 0;  // of the command's first process and the descendants that it waited for
  int64_t max_rss_kib = 0;
};

// Bytes that Ingot sends over a control socket.
inline constexpr char kTerminate = 'T';  // SIGTERM to every process of the room
inline constexpr char kKill = 'K';       // the end of all of them; the report follows

}  // namespace ingot::sandbox
