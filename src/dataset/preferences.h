// Preference files for DPO: JSONL, one prompt with two continuations per line.
//
//   {"prompt": [{"role": "user", ...}], "chosen": [{"role": "assistant", ...}], "rejected": [...], "tools": [...]}
//
// Both sides may be recorded trajectories (dataset/recorded.h) with their prompts in them: {"chosen": {"ids": ...},
// "rejected": {"ids": ...}}. `chosen` and `rejected` may be a single message instead of a list. `prompt` may be called
// `messages`. Tools and chat_template_kwargs are as in conversation files (conversations.h).
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

// Reads a preference file. INVALID_ARGUMENT names file and line: a line is not a pair, or the file has none.
absl::StatusOr<std::vector<PreferencePair>> LoadPreferences(const std::string& path, const JsonlOptions& options = {});

// Training examples (sft.h) of the assistant messages after the prompt. The chosen side of pair i is episode 2i, the
// rejected side episode 2i + 1; both are of group i. INVALID_ARGUMENT names the pair's place and the side.
// `concessions`: as in MakeSftExamples.
absl::StatusOr<std::vector<tree::CallPath>> MakePreferenceExamples(std::span<const PreferencePair> pairs,
                                                                   const text::ChatFormat& format,
                                                                   const SftOptions& options = {},
                                                                   text::ConcessionCounts* concessions = nullptr);

// The number of pairs whose sides train the same tokens: they teach nothing. `examples`: of MakePreferenceExamples.
int64_t CountAlike(std::span<const tree::CallPath> examples);

}  // namespace ingot::dataset
