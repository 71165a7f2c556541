// Conversations as training examples of the same type as recorded calls: one example per assistant turn, with its
// context. Supervised training then packs, merges and cuts them as reinforcement learning does (tree::PackForest).
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
  int32_t max_tokens = 0;  // of an example, context included; a longer one is an error; 0 = no limit
  // Variables of the chat template for all conversations; a conversation's own win (text/chat/template_variables.h).
  base::json::object template_variables = {};
  absl::Status Validate() const;
};

// Examples in the order of the conversations. An example's id is "FILE:LINE, message N"; its episode and group are the
// conversation's index; log-probs and versions are 0, the temperature is 1. Contexts share equal prefixes.
//
// A turn is learned as the template writes the conversation up to that turn, which is how it would have been sampled
// (text::ChatFormat::RenderTurns). If the template drops or adds text once a message follows, only later contexts show
// it. INVALID_ARGUMENT names the place of a conversation that has no assistant turn, cannot be rendered or is too long.
// `concessions`: gets the concessions to the template by the turns that need them; null = do not count them.
//
// AppendSftExamples: the examples of one conversation, from message `first_message` on.
absl::Status AppendSftExamples(const SftConversation& from, const text::ChatFormat& format, const SftOptions& options,
                               size_t first_message, int32_t index, std::vector<tree::CallPath>& examples,
                               text::ConcessionCounts* concessions = nullptr);
absl::StatusOr<std::vector<tree::CallPath>> MakeSftExamples(std::span<const SftConversation> conversations,
                                                            const text::ChatFormat& format,
                                                            const SftOptions& options = {},
                                                            text::ConcessionCounts* concessions = nullptr);

}  // namespace ingot::dataset
