// An episode's token tree for people to read: one line per run of tokens, forks indented.
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

// "open", "finished", "failed", "fenced" or "unknown".
std::string StateName(v1::EpisodeState state);

using DecodeFn = std::function<std::string(std::span<const int32_t>)>;

// A run of tokens of the merged tree, between two of its forks or ends of calls and prompts.
struct TreeNode {
  int32_t parent = -1;  // index into the list; -1 = the run begins at the root
  int32_t children = 0;
  int32_t depth = 0;  // tokens before it
  std::vector<int32_t> tokens;
  v1::Source source = v1::SOURCE_PROMPT;
  // Sampled runs, of the first call that sampled them:
  double mean_logprob = 0;
  int64_t first_version = 0;
  int64_t last_version = 0;
  bool kv_mixed = false;             // of any of its tokens
  std::vector<int32_t> sampled_by;   // indices into the tree's calls
  std::vector<int32_t> calls_ended;  // indices of the calls whose last token is the run's last
};

// The runs of the tree in pre-order. DATA_LOSS: as of CallPathsOf.
absl::StatusOr<std::vector<TreeNode>> DescribeTree(const v1::EpisodeTree& tree);

// "stop", "length" and so on, as people read them.
std::string FinishName(v1::FinishReason finish);

struct RenderOptions {
  int32_t max_text_bytes = 160;  // of a run's text; a longer text loses its middle; 0 = no text
  int32_t max_indent = 24;       // nested forks that are indented; deeper ones share one column
  bool ascii = false;            // |- and `- instead of box-drawing characters; text escaped to ASCII
};

// A heading, the episode's signals, then the tree. `decode` turns ids into text; its bytes are escaped.
absl::StatusOr<std::string> RenderTree(const v1::EpisodeTree& tree, const DecodeFn& decode,
                                       const RenderOptions& options = {});

}  // namespace ingot::tree
