// The messages between the service and the guest agent (guest_agent/main.cc), a small program of Ingot's that runs in a
// session's sandbox for as long as the session. Commands share the sandbox with it, have its uid and may stop it: the
// service treats its messages as a stranger's text.
//
//   service ── kStart, kInput, kSignal, .. ──▶ guest agent ── fork, exec ──▶ processes of the session
//   service ◀── kStarted, kOutput, kEnded, .. ── guest agent ◀── pipes ──────┘
//
// Both directions are frames over one stream socket: a FrameHeader, then `size` bytes. The two ends are of one build,
// so numbers have the machine's byte order. This header has only plain values, for a program without exceptions.
//
// A process starts with a window of kWindowBytes. A frame of its output takes its bytes and kFrameCost from it; kCredit
// returns them. The guest agent reads no more of its pipes than the window has, except what is there at the end and
// before notes.
#pragma once

#include <cstdint>

namespace ingot::execution {

enum class FrameKind : uint32_t {
  // To the guest agent. `id` names a process, or a file order; the service counts both up.
  kStart = 1,   // StartFacts, then strings with a NUL each: working folder, arguments, variables. `number`: StartFlags
  kInput,       // bytes for stdin
  kCloseInput,  // stdin ends after the bytes so far
  kSignal,      // `number`: the signal, for the process and the rest of its process group
  kCredit,      // `number`: bytes of output that the service let go
  kFile,        // FileFacts, then one or two paths with a NUL each, then bytes. `number`: FileOp

  // From the guest agent.
  kStarted = 101,  // `number`: process id in the sandbox
  kRejected,       // the process did not start. `number`: errno; the payload names the step
  kOutput,         // bytes of stdout
  kErrors,         // bytes of stderr
  kNotes,          // bytes of descriptor 3. Earlier bytes of stdout and stderr are ahead of them
  kTaken,          // `number`: bytes of input that the process's pipe took
  kEnded,          // EndFacts. `number`: the wait status. The last frame of a process
  kFileDone,       // `number`: errno, or 0 and the answer
};

struct FrameHeader {
  uint32_t size = 0;
  FrameKind kind = FrameKind::kStart;
  uint32_t id = 0;
  uint32_t number = 0;
};

inline constexpr uint32_t kMostPayload = (1 << 20) + (64 << 10);
inline constexpr uint32_t kWindowBytes = 256 << 10;
inline constexpr uint32_t kFrameCost = 64;
inline constexpr uint32_t kMostUntaken = 1 << 20;  // bytes of input that a process has not taken

enum StartFlags : uint32_t {
  kHasInput = 1 << 0,  // stdin is a pipe; otherwise it is empty
  kHasNotes = 1 << 1,  // descriptor 3 is a pipe to the service
};

struct StartFacts {
  uint32_t arguments = 0;
  uint32_t variables = 0;
  uint64_t memory_bytes = 0;  // RLIMIT_AS; 0 = the guest agent's, here and below
  uint64_t cpu_seconds = 0;   // RLIMIT_CPU
};

struct EndFacts {
  int64_t cpu_ns = 0;  // of the process and the descendants that it waited for
  int64_t max_rss_kib = 0;
};

enum class FileOp : uint32_t {
  kStat = 1,  // the answer is one entry: fields with a NUL each, in the order of FileField
  kList,      // entries below a folder, `depth` levels deep, in the order of their paths
  kRead,      // at most `length` bytes from `offset`
  kWrite,     // at `offset`; offset 0 makes the file and the folders on the way, and empties it
  kMakeFolder,
  kMove,    // the first path to the second one; the answer is its entry
  kRemove,  // a folder with its content
};

struct FileFacts {
  uint64_t offset = 0;
  uint32_t length = 0;  // kRead
  uint32_t depth = 1;   // kList
};

inline constexpr uint32_t kFileChunk = 256 << 10;  // most bytes of one kRead
inline constexpr uint32_t kMostEntries = 10'000;   // of one kList; more are E2BIG

enum FileField : uint32_t { kType, kMode, kSize, kSeconds, kNanos, kOwner, kGroup, kPath, kTarget, kFileFields };

}  // namespace ingot::execution
