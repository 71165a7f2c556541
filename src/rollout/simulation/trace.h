// Defines a recorded or generated workload for simulated engines: sessions of consecutive calls. A call's prompt is the
// previous call's prompt and answer, followed by new pieces. Pieces with the same content have the same tokens, so
// sessions that begin with the same pieces share a prefix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::rollout {

struct TracePiece {
  uint64_t content = 0;  // determines the tokens
  int32_t tokens = 0;
};

struct TraceCall {
  std::vector<TracePiece> added;
  TracePiece answer;
  double delay_seconds = 0;  // after the previous call's end or the session's start
};

struct TraceSession {
  double start_seconds = 0;  // ignored for an episode
  bool episode = false;      // true = starts as soon as fewer episodes run than the limit
  std::vector<TraceCall> calls;
};

using Trace = std::vector<TraceSession>;

// Describes an RL run: groups of episodes with the same prompt, which each episode's turns extend.
struct RlTraceOptions {
  int groups = 40;
  int group_size = 8;
  int turns = 11;              // on average
  int scaffold_tokens = 2048;  // the beginning of every prompt
  int prompt_tokens = 1024;    // the rest of a group's prompt, on average
  int turn_tokens = 500;       // new prompt tokens per later turn, on average
  int answer_tokens = 150;     // on average
  int delay_ms = 4000;         // average tool time
  uint64_t seed = 1;
};

// Returns the episodes in the format of trace_file.h. The same options give the same text.
std::string MakeRlTrace(const RlTraceOptions& options);

// Appends the piece's tokens to `ids`.
void AppendIds(const TracePiece& piece, std::vector<int32_t>& ids);

}  // namespace ingot::rollout
