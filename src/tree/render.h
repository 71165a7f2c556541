// Renders an episode's token tree for humans: one line per run of tokens, with forks indented.
//
//   prompt 42 tokens "<|im_start|>system..."
//   sampled 17 tokens, version 3, logprob -0.41, call 0 stop "<tool_call>..."
//   |- prompt 9 tokens "..."
//   |  sampled 4 tokens, version 3-4, logprob -0.02, call 1 stop "7"
//   `- prompt 12 tokens "..."
//      sampled 3 tokens, version 4, logprob -0.10, call 2 length "8"
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns "open", "finished", "failed", "fenced" or "unknown".
std::string StateName(v1::EpisodeState state);

using DecodeFn = std::function<std::string(std::span<const int32_t>)>;

// A run of tokens in the merged tree, from one fork, call end, or prompt end to the next.
struct TreeNode {
  int32_t parent = -1;  // index into the list; -1 = the run begins at the root
  int32_t children = 0;
  int32_t depth = 0;  // number of preceding tokens
  std::vector<int32_t> tokens;
  v1::Source source = v1::SOURCE_PROMPT;
  // For sampled runs, from the first call that sampled them:
  double mean_logprob = 0;
  int64_t first_version = 0;
  int64_t last_version = 0;
  bool kv_mixed = false;             // true if any of its tokens has mixed KV
  std::vector<int32_t> sampled_by;   // indices into the tree's calls
  std::vector<int32_t> calls_ended;  // indices of the calls that end at the run's last token
};

// Returns the runs of the tree in pre-order. Returns the same DATA_LOSS errors as CallPathsOf.
absl::StatusOr<std::vector<TreeNode>> DescribeTree(const v1::EpisodeTree& tree);

// Returns a readable name, such as "stop" or "length".
std::string FinishName(v1::FinishReason finish);

struct RenderOptions {
  int32_t max_text_bytes = 160;  // maximum length of a run's text; longer text is shortened in the middle; 0 = no text
  int32_t max_indent = 24;       // maximum nesting depth that is indented; deeper forks share one column
  bool ascii = false;            // use |- and `- instead of box-drawing characters, and escape text to ASCII
};

// Returns a heading, the episode's signals, and the tree. `decode` converts ids to text, which is then escaped.
absl::StatusOr<std::string> RenderTree(const v1::EpisodeTree& tree, const DecodeFn& decode,
                                       const RenderOptions& options = {});

}  // namespace ingot::tree
