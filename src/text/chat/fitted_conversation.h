// Changes a conversation with concessions when its template rejects the original.
#pragma once

#include <cstddef>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/concession.h"

namespace ingot::text {

struct FittedConversation {
  Conversation conversation;
  // The original's message i is in messages [first[i], last[i]] of `conversation`. The range has several messages if
  // its calls were split. Joined messages have the same range.
  std::vector<size_t> first, last;
  Concessions changed;  // the concessions that had an effect

  // Returns whether the original's message `i` was joined with the previous one.
  bool JoinsBefore(size_t i) const { return i > 0 && first[i] <= last[i - 1]; }
};

// Applies the concessions. Separates joined contents with an empty line. Uses `format` to write calls as text.
FittedConversation FitConversation(const Conversation& conversation, Concessions concessions,
                                   const OutputFormat& format);

}  // namespace ingot::text
