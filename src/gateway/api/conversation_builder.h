// Puts a conversation together from the parts in which a dialect sends it. The Responses API sends an assistant's turn
// as several items; here they become the one message that was delivered.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/event.h"
#include "gateway/api/request.h"

namespace ingot::gateway {

class ConversationBuilder {
 public:
  // Fills request.conversation.messages and request.echoed_ids.
  explicit ConversationBuilder(GatewayRequest& request) : request_(request) {}

  // A message of role system, user or tool.
  void Add(text::Message message);

  // Begins an assistant message, which may stay empty. All parts until the next Add belong to it.
  void BeginTurn();
  // Adds a part of the assistant's turn. Without BeginTurn the part joins the last turn if both can belong to one
  // answer:
  //   1. Ids that this gateway gave (CallIdIn) decide, even across results of other calls of the turn.
  //   2. Without such ids the order decides: reasoning, content, calls. A part in another order begins a message, which
  //      History::JoinTurns joins to its turn.
  // `id`: the part's id as the client sent it, may be empty.
  void AddReasoning(std::string_view text, std::string_view id);
  void AddContent(std::string_view text, std::string_view id);
  void AddCall(text::ToolCall call);
  // Adds the part of an earlier answer that has this id. False: this gateway did not make the id.
  bool AddReference(PartKind kind, std::string_view id, std::string path);

 private:
  text::Message& Turn(PartKind kind, std::string_view id);

  GatewayRequest& request_;
  bool in_turn_ = false;                  // BeginTurn was called
  size_t turn_ = SIZE_MAX;                // the assistant's last message
  PartKind last_ = PartKind::kReasoning;  // of its parts
  std::string turn_call_;                 // CallIdIn of its parts
  bool referred_reasoning_ = false;       // a reference stands for its reasoning
  bool referred_content_ = false;         // a reference stands for its content
  bool only_results_ = true;              // all messages after it are results of calls
};

// An id for clients to echo, built from the call's id (32 hexadecimal digits): PREFIX_callid_INDEX.
std::string EchoedId(std::string_view prefix, std::string_view call_id, int index);
// The call id in such an id, or in PREFIX_callid; empty for any other id.
std::string CallIdIn(std::string_view id);
// The index in such an id; nullopt = no index.
std::optional<size_t> IndexIn(std::string_view id);

}  // namespace ingot::gateway
