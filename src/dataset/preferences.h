// Reads preference files for DPO: JSONL, with one prompt and two continuations per line.
//
//   {"prompt": [{"role": "user", ...}], "chosen": [{"role": "assistant", ...}], "rejected": [...], "tools": [...]}
//
// Both sides may also be recorded trajectories (dataset/recorded.h), which include their prompts: {"chosen": {"ids":
// ...}, "rejected": {"ids": ...}}. `chosen` and `rejected` may be a single message instead of a list. `prompt` may also
// be named `messages`. Tools and chat_template_kwargs are as in conversation files (conversations.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "dataset/sft.h"
#include "text/chat/chat.h"
#include "tree/forest.h"

namespace ingot::dataset {

struct PreferencePair {
  SftConversation chosen;    // the messages of prompt and `chosen`
  SftConversation rejected;  // the messages of prompt and `rejected`
  size_t prompt_messages = 0;
};

// Reads a preference file. Returns INVALID_ARGUMENT with the file and line if a line is not a pair or the file has
// none.
absl::StatusOr<std::vector<PreferencePair>> LoadPreferences(const std::string& path, const JsonlOptions& options = {});

// Returns training examples (sft.h) for the assistant messages after the prompt. The chosen side of pair i is episode
// 2i, the rejected side is episode 2i + 1, and both are in group i. Returns INVALID_ARGUMENT with the pair's location
// and the side. `concessions` is as in MakeSftExamples.
absl::StatusOr<std::vector<tree::CallPath>> MakePreferenceExamples(std::span<const PreferencePair> pairs,
                                                                   const text::ChatFormat& format,
                                                                   const SftOptions& options = {},
                                                                   text::ConcessionCounts* concessions = nullptr);

// Returns the number of useless pairs, that is, pairs whose sides train on the same tokens. `examples` are from
// MakePreferenceExamples.
int64_t CountAlike(std::span<const tree::CallPath> examples);

}  // namespace ingot::dataset
