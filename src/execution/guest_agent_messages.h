// Defines the messages between the service and the guest agent (guest_agent/main.cc). The guest agent is a small
// program that runs in a session's sandbox for the entire session. Commands in the sandbox share its uid and may stop
// it, so the service treats its messages as untrusted.
//
//   service ── kStart, kInput, kSignal, .. ──▶ guest agent ── fork, exec ──▶ processes of the session
//   service ◀── kStarted, kOutput, kEnded, .. ── guest agent ◀── pipes ──────┘
//
// Both directions send frames over one stream socket: a FrameHeader followed by `size` bytes. Both ends are from the
// same build, so numbers use the machine's byte order. This header has only plain values because the guest agent is
// built without exceptions.
//
// A process starts with a window of kWindowBytes. Each output frame consumes its size plus kFrameCost of the window,
// and kCredit returns them. The guest agent does not read more from its pipes than the window allows, except for
// remaining output at the end and before notes.
#pragma once

#include <cstdint>

namespace ingot::execution {

enum class FrameKind : uint32_t {
  // To the guest agent. `id` identifies a process or a file request. The service increments both.
  kStart = 1,  // StartFacts, then NUL-terminated strings: working directory, arguments, variables. `number`: StartFlags
  kInput,      // bytes for stdin
  kCloseInput,  // closes stdin after the bytes sent so far
  kSignal,      // `number`: the signal for the process and its process group
  kCredit,      // `number`: bytes of output that the service has released
  kFile,        // FileFacts, then one or two NUL-terminated paths, then bytes. `number`: FileOp

  // From the guest agent.
  kStarted = 101,  // `number`: process id in the sandbox
  kRejected,       // the process did not start. `number`: errno. The payload names the failed step
  kOutput,         // bytes of stdout
  kErrors,         // bytes of stderr
  kNotes,          // bytes from descriptor 3, sent after all earlier bytes of stdout and stderr
  kTaken,          // `number`: bytes of input that the process's pipe accepted
  kEnded,          // EndFacts. `number`: the wait status. A process's last frame
  kFileDone,       // `number`: errno, or 0 with the result as payload
};

struct FrameHeader {
  uint32_t size = 0;
  FrameKind kind = FrameKind::kStart;
  uint32_t id = 0;
  uint32_t number = 0;
};

inline constexpr uint32_t kMaxPayload = (1 << 20) + (64 << 10);
inline constexpr uint32_t kWindowBytes = 256 << 10;
inline constexpr uint32_t kFrameCost = 64;
inline constexpr uint32_t kMaxUntaken = 1 << 20;  // maximum bytes of input not yet accepted by a process

enum StartFlags : uint32_t {
  kHasInput = 1 << 0,  // stdin is a pipe; otherwise it is empty
  kHasNotes = 1 << 1,  // descriptor 3 is a pipe to the service
};

struct StartFacts {
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint64_t memory_bytes = 0;  // RLIMIT_AS; 0 = same as the guest agent's
  uint64_t cpu_seconds = 0;   // RLIMIT_CPU; 0 = same as the guest agent's
};

struct EndFacts {
  int64_t cpu_ns = 0;  // CPU time of the process and of the descendants that it waited for
  int64_t max_rss_kib = 0;
};

enum class FileOp : uint32_t {
  kStat = 1,  // the result is one entry: NUL-terminated fields in FileField order
  kList,      // entries below a folder, `depth` levels deep, sorted by path
  kRead,      // up to `length` bytes from `offset`
  kWrite,     // writes at `offset`; offset 0 creates the file and its parent folders, and truncates the file
  kMakeFolder,
  kMove,    // moves the first path to the second; the result is the new entry
  kRemove,  // removes a file, or a folder with its contents
};

struct FileFacts {
  uint64_t offset = 0;
  uint32_t length = 0;  // kRead
  uint32_t depth = 1;   // kList
};

inline constexpr uint32_t kFileChunk = 256 << 10;  // maximum bytes per kRead
inline constexpr uint32_t kMaxEntries = 10'000;    // maximum entries per kList; more entries fail with E2BIG

enum FileField : uint32_t { kType, kMode, kSize, kSeconds, kNanos, kOwner, kGroup, kPath, kTarget, kFileFields };

}  // namespace ingot::execution
