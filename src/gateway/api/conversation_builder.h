// Builds a conversation from the parts that a dialect sends. The Responses API sends an assistant's turn as several
// items. The builder merges them back into the single message that was delivered.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/event.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

class ConversationBuilder {
 public:
  // Fills in request.conversation.messages and request.echoed_ids.
  explicit ConversationBuilder(GatewayRequest& request) : request_(request) {}

  // Adds a system, user, or tool message.
  void Add(text::Message message);

  // Begins an assistant message, which may stay empty. All parts up to the next Add call belong to it.
  void BeginTurn();
  // Add a part to the assistant's turn. Without BeginTurn, the part joins the last turn if both can belong to the same
  // answer:
  // 1. Ids issued by this gateway (CallIdIn) decide, even if results for the turn's other calls come in between.
  // 2. Without such ids, the order decides: reasoning, content, calls. An out-of-order part begins a new message, which
  //    History::JoinTurns later joins to its turn.
  //
  // `id` is the part's id as the client sent it, which may be empty.
  void AddReasoning(std::string_view text, std::string_view id);
  void AddContent(std::string_view text, std::string_view id);
  void AddCall(text::ToolCall call);
  // Adds the part of an earlier answer that has this id. Returns false if this gateway did not issue the id.
  bool AddReference(PartKind kind, std::string_view id, std::string path);

 private:
  text::Message& Turn(PartKind kind, std::string_view id);

  GatewayRequest& request_;
  bool in_turn_ = false;                  // BeginTurn was called
  size_t turn_ = SIZE_MAX;                // index of the assistant's last message
  PartKind last_ = PartKind::kReasoning;  // kind of its last part
  std::string turn_call_;                 // CallIdIn of its parts' ids
  bool referred_reasoning_ = false;       // its reasoning was given as a reference
  bool referred_content_ = false;         // its content was given as a reference
  bool only_results_ = true;              // all messages after it are tool results
};

// Returns an id that clients echo: PREFIX_callid_INDEX, where callid is the call's id (32 hexadecimal digits).
std::string EchoedId(std::string_view prefix, std::string_view call_id, int index);
// Returns the call id in PREFIX_callid_INDEX or PREFIX_callid, or "" for any other id.
std::string CallIdIn(std::string_view id);
// Returns the index in an echoed id, or nullopt if it has none.
std::optional<size_t> IndexIn(std::string_view id);

}  // namespace ingot::gateway
