// What an episode's calls were, and which of them a new request continues (law 1).
//
//   request   [system][user][assistant A1][tool]            A1 equals what call 0 delivered, after the same messages
//   prompt    ids of call 0's prompt | ids call 0 sampled | RenderTail([tool])       -> parent is call 0
//
// A request continues the call whose delivered message is the last one in it that, together with all that stands before
// it, equals what was recorded, in canonical form (canonical.h). Whole prefixes are compared by a chain of 128-bit
// content keys, so matching is linear in the request, and what an id or a text finds is spliced only if all of it is
// equal. Ids (of tool calls, of items, signatures) decide between calls that delivered equal content, and name what was
// done to a message that does not equal what was delivered under them.
//
// Plain value, not thread safe. Segments are shared, so a chain of n calls costs the tokens it holds, not their square.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

// The key of all that a call was asked, with its tools and without.
struct AskedKey {
  std::string key;
  std::string no_tools;

  static AskedKey Of(const ConversationKeys& keys) { return {keys.after.back(), keys.after_no_tools.back()}; }
};

class History {
 public:
  // How a request is to be prompted.
  struct Match {
    int parent = -1;         // call to continue; -1: none, render everything
    size_t first_new = 0;    // the first message after what `parent` delivered
    std::string fork_cause;  // why it begins a branch; empty: it continues the newest call, or is the first
  };

  // Per message, ids of ours that came back with it (a call id stands in each of them), besides those of its tool
  // calls.
  using EchoedIds = std::vector<std::vector<std::string>>;

  // `echoed`: empty, or as long as the messages.
  Match Find(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed = {}) const;

  // The conversation with the reasoning that calls delivered put back into messages that came without it; nullopt:
  // there is none to put back.
  std::optional<text::Conversation> WithReasoning(const text::Conversation& conversation,
                                                  const ConversationKeys& keys) const;

  // A call and what of its answer was delivered. `prompt` and `sampled` are its own pieces, after those of `parent`; of
  // an answer that was cut off, `sampled` are the ids of what was delivered. Returns its index.
  int Add(const AskedKey& asked, const text::Message& delivered, std::string call_id, int parent,
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
    text::Message delivered;
    bool continued;  // by another call
  };
  bool Names(int call, const text::Message& message, const std::vector<std::string>* ids) const;
  int Choose(const std::vector<int>& candidates, const text::Message& message,
             const std::vector<std::string>* ids) const;
  std::string ForkCause(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                        size_t message) const;

  std::vector<Entry> calls_;
  std::unordered_map<std::string, std::vector<int>> by_prefix_;  // by ConversationKeys::after
  std::unordered_set<std::string> asked_;                        // keys of whole requests
  std::unordered_set<std::string> prefixes_no_tools_;
  std::unordered_map<std::string, std::vector<int>> by_message_;  // by key of the delivered message
  bool any_reasoning_ = false;
};

// The causes a fork is counted under. Nothing before the fork is continued:
inline constexpr char kForkNewConversation[] = "new_conversation";  // no assistant message: a fresh start, a sub-agent
inline constexpr char kForkToolsChanged[] = "tools_changed";        // same messages, other tools
inline constexpr char kForkHistoryRewritten[] = "history_rewritten";  // delivered, but what stood before it changed
inline constexpr char kForkCallRenamed[] = "call_renamed";            // under a known id, a call of another tool
inline constexpr char kForkArgumentsChanged[] = "arguments_changed";  // under a known id, other arguments
inline constexpr char kForkContentChanged[] = "content_changed";      // under a known id, other text or calls
inline constexpr char kForkNotFound[] = "not_found";  // an assistant message this episode never delivered
inline constexpr char kForkThinkingStripped[] = "thinking_stripped";  // the template leaves out earlier reasoning now
inline constexpr char kForkTailFailed[] = "tail_failed";              // the template cannot render the rest on its own
// An earlier call is continued, but not the newest of its branch:
inline constexpr char kForkRetry[] = "retry";               // the same request again
inline constexpr char kForkEarlierTurn[] = "earlier_turn";  // later turns were dropped, or a branch begins here

}  // namespace ingot::gateway
