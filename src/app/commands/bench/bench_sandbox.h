// `ingot bench sandbox`: measures starts of a command that ends at once, in sandboxes of this machine's strongest
// isolation level, and with crun.
#pragma once

#include <iosfwd>
#include <string>

namespace ingot::app {

struct SandboxBenchArgs {
  int starts = 200;  // per line and round
  int rounds = 3;    // the ways are measured in turn, round by round; every figure is the median round's
  int threads = 2;
  std::string isolation = "auto";
  int idle = 0;  // sandboxes to hold at once, instead of starts; 0 = none
};

// One JSON object per way:
//   pool                a sandbox that was opened before; the starts are paced, so that the pool can fill
//   pool, at full rate  the same without pauses, faster than sandboxes can be opened
//   sandbox                a sandbox that is opened when asked for
//   .., work_at         both with the work folder at another path
//   second              another command in an open sandbox
//   snapshot            of a sandbox with 1,000 files of 16 KiB, between two commands; no command is started
//   fork                a sandbox on such a snapshot
//   spawn               no sandbox
//   bubblewrap, crun    where they are installed
// Fields: p50_ms and p99_ms from the request to the end of the command, starts_per_s sustained by `threads`, sandboxes
// removed as well, and the machine's load. With `idle` one object for the memory of that many open sandboxes. Returns
// the exit code.
int BenchSandbox(const SandboxBenchArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
