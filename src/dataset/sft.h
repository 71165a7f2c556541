// Conversations as training examples of the same kind that recorded calls are: one per assistant turn, its context
// before it, so that supervised training packs, merges and cuts with tree::PackForest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dataset/conversations.h"
#include "text/chat.h"
#include "tree/forest.h"

namespace ingot::dataset {

struct SftOptions {
  int32_t max_tokens = 0;  // of an example, context included; a longer one is an error; 0: no limit
  absl::Status Validate() const;
};

// In order; a call's id is "FILE:LINE, message N", episode and group are the conversation's index, log-probs and
// versions zero, temperature 1. A turn is learnt as the template writes the conversation up to it, which is how it
// would have been sampled (text::ChatFormat::RenderTurns): what the template drops or adds once more follows is in
// later turns' contexts alone. Contexts share what is the same in them. INVALID_ARGUMENT names the place of the
// conversation that has no assistant turn, cannot be rendered or is too long.
//
// AppendSftExamples: those of one conversation, of its messages from `first_message` on.
absl::Status AppendSftExamples(const SftConversation& from, const text::ChatFormat& format, const SftOptions& options,
                               size_t first_message, int32_t index, std::vector<tree::CallPath>& examples);
absl::StatusOr<std::vector<tree::CallPath>> MakeSftExamples(std::span<const SftConversation> conversations,
                                                            const text::ChatFormat& format,
                                                            const SftOptions& options = {});

}  // namespace ingot::dataset
