// A conversation with concessions to a template that rejects it as it is.
#pragma once

#include <cstddef>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/concession.h"

namespace ingot::text {

struct FittedConversation {
  Conversation conversation;
  // Message i of the original is in messages [first[i], last[i]] of `conversation`: several if its calls were split.
  // Neighbors that were joined share one message.
  std::vector<size_t> first, last;
  Concessions changed;  // the concessions that changed something

  // Whether message `i` of the original shares its message with the previous message.
  bool JoinsBefore(size_t i) const { return i > 0 && first[i] <= last[i - 1]; }
};

// Joined texts have an empty line between them. `format`: writes calls as text.
FittedConversation FitConversation(const Conversation& conversation, Concessions concessions,
                                   const OutputFormat& format);

}  // namespace ingot::text
