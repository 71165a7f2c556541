// Converts conversations to training examples of the same type as recorded calls: one example per assistant turn, with
// its context. Supervised training then packs, merges, and cuts them as reinforcement learning does (tree::PackForest).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "dataset/conversations.h"
#include "text/chat/chat.h"
#include "tree/forest.h"

namespace ingot::dataset {

struct SftOptions {
  int32_t max_tokens = 0;  // per example, including context; longer examples are an error; 0 = no limit
  // Chat template variables for all conversations. A conversation's own variables override them
  // (text/chat/template_variables.h).
  base::json::object template_variables = {};
  absl::Status Validate() const;
};

// Returns examples in conversation order. An example's id is "FILE:LINE, message N". Its episode and group are the
// conversation's index. Log-probs and versions are 0, and the temperature is 1. Contexts share common prefixes.
//
// A turn is trained on as the template renders it at the end of the conversation, because that is how it would
// have been sampled (text::ChatFormat::RenderTurns). If the template drops or adds text when more messages follow,
// that affects only later contexts. Returns INVALID_ARGUMENT with the location of a conversation that has no
// assistant turn, cannot be rendered, or is too long. `concessions` (may be null) counts the turns that need each
// concession.
//
// Appends the examples from one conversation, starting with message `first_message`.
absl::Status AppendSftExamples(const SftConversation& from, const text::ChatFormat& format, const SftOptions& options,
                               size_t first_message, int32_t index, std::vector<tree::CallPath>& examples,
                               text::ConcessionCounts* concessions = nullptr);
absl::StatusOr<std::vector<tree::CallPath>> MakeSftExamples(std::span<const SftConversation> conversations,
                                                            const text::ChatFormat& format,
                                                            const SftOptions& options = {},
                                                            text::ConcessionCounts* concessions = nullptr);

}  // namespace ingot::dataset
