// `ingot bench sandbox`: measures how fast a command that exits immediately starts in a sandbox. Uses this machine's
// strongest isolation level, and crun for comparison.
#pragma once

#include <iosfwd>
#include <string>

namespace ingot::app {

struct SandboxBenchArgs {
  int starts = 200;  // starts per line and round
  int rounds = 3;    // the methods alternate in each round; each figure is the median over the rounds
  int threads = 2;
  std::string isolation = "auto";
  int idle = 0;  // number of open sandboxes whose memory to measure instead of starts; 0 = measure starts
};

// Prints one JSON object per method:
//   pool                a sandbox from the pool; commands are paced so that the pool can refill
//   pool, at full rate  same as pool, but without pauses, so faster than sandboxes can be opened
//   sandbox             a sandbox that is opened on demand
//   .., work_at         same as `pool` and `sandbox`, but with the working directory at another path
//   second              another command in an open sandbox
//   snapshot            a snapshot of a sandbox with 1,000 files of 16 KiB between two commands; starts no command
//   fork                a sandbox created from such a snapshot
//   spawn               no sandbox
//   bubblewrap, crun    if they are installed
// The fields are p50_ms and p99_ms (from the request to the end of the command), starts_per_s (sustained by `threads`,
// including the removal of sandboxes), and the machine's load. With `idle`, prints one object with the memory use of
// that many open sandboxes. Returns the exit code.
int BenchSandbox(const SandboxBenchArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
