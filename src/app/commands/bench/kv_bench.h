// `ingot bench kv`: measures whether engines gain from a KV store in a directory (rollout.kv_store).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct KvBenchArgs {
  std::string folder;  // on the file system to measure; the store is a new directory in it, which is removed at the end
  std::string model;   // model folder or checkpoint; empty = random bf16 weights of 8 layers
  std::vector<int> prompts = {64, 256, 1024, 4096};  // lengths in tokens
  int chunk_tokens = 64;                             // rollout.kv_store.chunk_tokens
  int repeat = 5;
  int threads = 1;  // per engine; 0 = all cores
};

// Each round has a new prompt, which one engine computes, a second one computes and writes, and a third one reads. Prints
// one line per length:
//
//   prompt_tokens        one more token, which no store has, is always computed
//   compute_ms, store_ms time to the first token without and with the store: median, least, and most
//   read_tokens          tokens that were read in time, fewest of the rounds
//
// and then one line for the longest prompt: microseconds per token computed and read, the bytes per token, and the read
// rate in MB/s above which reading takes less time than computing (break_even). The chunks are in the page cache, unless
// the file system bypasses it.
//
// Returns the exit code: 0, 1 if a request failed or an answer differs from the one without a store in an id or a
// log-prob, or 2 for an invalid argument.
int BenchKv(const KvBenchArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
