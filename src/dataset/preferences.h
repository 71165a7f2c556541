// Preference files for DPO: JSONL, a conversation's beginning and two ways on per line.
//
//   {"prompt": [{"role": "user", ...}], "chosen": [{"role": "assistant", ...}], "rejected": [...], "tools": [...]}
//
// `chosen` and `rejected` may be a single message instead of a list, `prompt` may be called `messages`. Tools and
// chat_template_kwargs are as in conversation files (conversations.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "dataset/sft.h"
#include "text/chat.h"
#include "tree/forest.h"

namespace ingot::dataset {

struct PreferencePair {
  SftConversation chosen;  // the prompt's messages, then its own
  SftConversation rejected;
  size_t prompt_messages = 0;
};

// INVALID_ARGUMENT naming file and line for a line that is no pair, or a file without one.
absl::StatusOr<std::vector<PreferencePair>> LoadPreferences(const std::string& path, const JsonlOptions& options = {});

// Examples as MakeSftExamples makes them, of the assistant messages after the prompt alone: pair i is episode 2i, what
// was chosen, and episode 2i + 1, what was rejected, both of group i. INVALID_ARGUMENT names the pair's
// place and which way it is.
absl::StatusOr<std::vector<tree::CallPath>> MakePreferenceExamples(std::span<const PreferencePair> pairs,
                                                                   const text::ChatFormat& format,
                                                                   const SftOptions& options = {});

// Of such examples, the pairs whose sides are the same tokens: nothing can be learnt from them.
int64_t CountAlike(std::span<const tree::CallPath> examples);

}  // namespace ingot::dataset
