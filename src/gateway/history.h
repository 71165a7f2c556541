// What an episode's calls were, and which of them a new request continues (law 1).
//
//   request   [system][user][assistant A1][tool]            A1 equals what call 0 delivered, after the same messages
//   prompt    ids of call 0's prompt | ids call 0 sampled | RenderTail([tool])       -> parent is call 0
//
// A request continues the call whose delivered message is the last one in it that, together with all that stands before
// it, equals what was recorded, in canonical form: role, text, tool name and the canonical JSON of tool arguments (ids
// of tool calls, white space around an assistant's text, and thinking, which clients drop, do not count). Whole
// prefixes are compared by a chain of 128-bit content keys, so matching is linear in the request. Ids are compared
// last: between calls that delivered equal content, the one whose tool-call id the client echoes is meant.
//
// Plain value, not thread safe. Segments are shared, so a chain of n calls costs the tokens it holds, not their square.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "proto/tree.pb.h"
#include "text/chat.h"

namespace ingot::gateway {

// A stored segment with its content key.
struct Piece {
  std::string key;
  std::shared_ptr<const v1::Segment> segment;
};

// Content keys of a conversation's prefixes: after[i] covers the tools and messages [0, i).
struct ConversationKeys {
  std::vector<std::string> after;           // size: messages + 1
  std::vector<std::string> after_no_tools;  // the same, as if there were no tools
  std::vector<std::string> message;         // each message alone

  static ConversationKeys Of(const text::Conversation& conversation);
};

class History {
 public:
  // How a request is to be prompted.
  struct Match {
    int parent = -1;         // call to continue; -1: none, render everything
    size_t first_new = 0;    // the first message after what `parent` delivered
    std::string fork_cause;  // why a later assistant message, or any, could not be continued; empty: it could
  };

  Match Find(const text::Conversation& conversation, const ConversationKeys& keys) const;

  // A call whose whole answer was delivered. `prompt` and `sampled` are its own pieces, after those of `parent`.
  // Returns its index.
  int Add(const ConversationKeys& asked, const text::Message& delivered, std::string call_id, int parent,
          std::vector<Piece> prompt, std::vector<Piece> sampled);

  // From the root to the last token that call sampled; -1 is the empty path.
  std::vector<const Piece*> Path(int call) const;
  const std::string& call_id(int call) const { return calls_[call].call_id; }
  // The ids that call sampled.
  std::vector<int32_t> Sampled(int call) const;
  size_t size() const { return calls_.size(); }

 private:
  struct Entry {
    std::string call_id;
    int parent;
    std::vector<Piece> pieces;
    size_t first_sampled;  // index into pieces
    std::vector<std::string> tool_call_ids;
  };
  int Choose(const std::vector<int>& candidates, const text::Message& echoed) const;
  std::string ForkCause(const text::Conversation& conversation, const ConversationKeys& keys, size_t message) const;

  std::vector<Entry> calls_;
  std::unordered_map<std::string, std::vector<int>> by_prefix_;  // by ConversationKeys::after
  std::unordered_set<std::string> prefixes_no_tools_;
  std::unordered_set<std::string> delivered_;  // keys of delivered messages
  std::unordered_set<std::string> tool_call_ids_;
};

// The causes a fork is counted under.
inline constexpr char kForkNewConversation[] =
    "new_conversation";                                       // no assistant message: a fresh start or a sub-agent
inline constexpr char kForkToolsChanged[] = "tools_changed";  // same messages, other tools
inline constexpr char kForkHistoryRewritten[] = "history_rewritten";  // delivered, but what stood before it changed
inline constexpr char kForkAssistantRewritten[] =
    "assistant_rewritten";                                // its tool-call id is known, its content is not
inline constexpr char kForkNotFound[] = "not_found";      // an assistant message this episode never delivered
inline constexpr char kForkTailFailed[] = "tail_failed";  // the template cannot render the rest on its own

}  // namespace ingot::gateway
