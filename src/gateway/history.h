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
// Reasoning is no part of the keys, for most clients drop it. What of it comes back must be what was delivered, in the
// message that is continued and in all before it: it decides between calls that delivered the same text.
//
// Of a streamed answer the client may have kept a beginning: the call was aborted, or the client left before the end.
// Such a message is continued on the ids whose text it is, and no others (Cut). They are not delimited in what was
// recorded, so that calls that go on from them bring them along as a segment of their own (IsCut).
//
// Plain value, not thread safe. Segments are shared, so a chain of n calls costs the tokens it holds, not their square.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/checksum.h"
#include "gateway/echoed_ids.h"
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
  std::vector<base::Key128> after;           // size: messages + 1
  std::vector<base::Key128> after_no_tools;  // the same, as if there were no tools
  std::vector<base::Key128> message;         // each message alone
  size_t first_reasoned = 0;                 // the first message with reasoning; none: how many messages there are

  static ConversationKeys Of(const text::Conversation& conversation);
};

// The key of all that a call was asked, with its tools and without.
struct AskedKey {
  base::Key128 key;
  base::Key128 no_tools;

  static AskedKey Of(const ConversationKeys& keys) { return {keys.after.back(), keys.after_no_tools.back()}; }
};

// Keys of the reasoning (canonical.h) that messages of a conversation have, by their index.
using ReasoningKeys = std::map<size_t, std::string>;
// Of the messages from `first` on.
ReasoningKeys ReasoningOf(const text::Conversation& conversation, size_t first);

class History {
 public:
  // The first ids of an answer, and the message that their text is; no ids: what was sent is no beginning of it.
  struct Kept {
    size_t ids = 0;
    text::Message message;
  };
  // Looks for what a client sent in an answer of which it may have got no more than the text of `sampled`, which go on
  // from `prefill`.
  using Cut = std::function<Kept(const text::Conversation& conversation, size_t message,
                                 std::span<const int32_t> sampled, const std::string& prefill)>;

  // How a request is to be prompted.
  struct Match {
    int parent = -1;         // call to continue; -1: none, render everything
    size_t first_new = 0;    // the first message after what `parent` delivered
    std::string fork_cause;  // why it begins a branch; empty: it continues the newest call, or is the first
    // A call and the beginning of its answer that the client kept: Keep makes the parent of it. -1: none.
    int kept_of = -1;
    Kept kept = {};
  };

  // `echoed`: empty, or as long as the messages. `cut` null: beginnings of answers are not looked for.
  Match Find(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed = {},
             const Cut& cut = nullptr) const;

  // The conversation as it is to be rendered (history_restore.cc), nullopt: as it was sent.
  //   Reasoning that calls delivered is put back into messages that came without it: a message has it that answers what
  // its call was asked, or bears an id of that call. Text that is merely equal has not, for it may be another
  // conversation's.
  //   Calls that were delivered under ids of the gateway's have those that the model wrote
  //   (text::ToolCall::written_id). What calls on the way to `call` delivered stands in the place of what the client
  //   made of it; ids of tool calls
  // stay the client's, beside those that the model wrote.
  // REQUIRES: `call` is the parent of the conversation's match, or -1.
  std::optional<text::Conversation> Restored(const text::Conversation& conversation, const ConversationKeys& keys,
                                             const EchoedIds& echoed, int call) const;

  // A call: where it comes from, and the pieces of its own, after those of `parent`.
  struct Call {
    std::string call_id;
    int parent = -1;
    std::vector<Piece> prompt;
    std::vector<Piece> sampled;
    std::string text_key;  // text::RenderedPrompt's, of its prompt; empty: not known
    std::string prefill;   // of the answer, in the prompt (text::RenderedPrompt)
    size_t taken = 0;      // of the ids of the last piece sampled: how many may have reached the client as a stream
    // Of each tool call delivered, the arguments that it has when it comes back as it was delivered, as far as a client
    // is told them in other words than the model's; empty: of none.
    std::vector<std::string> echoed_arguments = {};
    // Of the messages that it was asked with behind what `parent` delivered; nullopt: not known, not compared.
    std::optional<ReasoningKeys> reasoning = {};
  };
  // A call and its answer; nullopt: it broke off, and what was sampled is only good for what the client kept of it.
  // Returns its index.
  int Add(const AskedKey& asked, const std::optional<text::Message>& delivered, Call call);
  // Makes a call of what the client kept of an answer. Returns its index.
  int Keep(const ConversationKeys& asked, const Match& match);

  // From the root to the last token that call sampled; -1 is the empty path.
  std::vector<const Piece*> Path(int call) const;
  // The ids on that path. Those of the last one are kept, as most that are asked for next go on from it: they lie
  // together, and those of a path all over memory. Valid until the next one is asked for.
  const std::vector<int32_t>& PathIds(int call);
  // The last piece of its path.
  const Piece& LastPiece(int call) const { return calls_[call].pieces.back(); }
  // Whether the last piece of its path is in no record: Keep cut it off what the call sampled.
  bool IsCut(int call) const { return calls_[call].unrecorded; }
  // How many pieces the call sampled that its record holds.
  size_t RecordedPieces(int call) const {
    const Entry& entry = calls_[call];
    return entry.pieces.size() - entry.first_sampled - (entry.unrecorded ? 1 : 0);
  }
  // What the call of this id delivered; nullptr: there is no such call, or it broke off.
  const text::Message* Delivered(std::string_view call_id) const {
    for (const Entry& entry : calls_) {
      if (entry.call_id == call_id && !entry.broken_off) return &entry.delivered;
    }
    return nullptr;
  }
  const std::string& call_id(int call) const { return calls_[call].call_id; }
  const std::string& text_key(int call) const { return calls_[call].text_key; }
  // The ids that call sampled.
  std::vector<int32_t> Sampled(int call) const;
  size_t size() const { return calls_.size(); }
  // Tokens held, those that calls share counted once.
  int64_t tokens() const { return tokens_; }

 private:
  struct Entry {
    std::string call_id;
    int parent = -1;
    std::vector<Piece> pieces;
    size_t first_sampled = 0;  // index into pieces
    std::string text_key;
    text::Message delivered;
    std::vector<std::string> echoed_arguments;  // Call's
    std::string delivered_reasoning;            // its key
    std::optional<ReasoningKeys> asked_reasoning;
    base::Key128 asked = {};  // AskedKey::key
    std::string prefill;
    size_t taken = 0;
    bool broken_off = false;  // nothing is in `delivered`
    bool unrecorded = false;  // its last piece is in no record: Keep made it
    bool continued = false;   // by another call
  };
  // The id that the model wrote for a call that a client sent.
  const std::string& WrittenId(const text::ToolCall& call) const;
  // The reasoning that was delivered in that message and that the client left out; nullptr: there is none.
  const std::string* DroppedReasoning(const text::Conversation& conversation, const ConversationKeys& keys,
                                      const EchoedIds& echoed, size_t message) const;

  void Index(const AskedKey& asked, int call);
  Match FindKept(const text::Conversation& conversation, const ConversationKeys& keys, size_t message,
                 const Cut& cut) const;
  // What `call` delivered, as it comes back.
  text::Message Echoed(int call) const;
  bool Names(int call, const text::Message& message, const std::vector<std::string>* ids) const;
  int NamedElsewhere(const text::Message& message, const base::Key128& key, const std::vector<std::string>* ids) const;
  // The message that `call` answered with, among those before `end`; `end` if it is not there.
  size_t AnswerOf(int call, const ConversationKeys& keys, size_t end) const;
  bool SameReasoningBefore(size_t message, const text::Conversation& conversation, const ConversationKeys& keys,
                           int call) const;
  // Of calls that delivered what `message` says, the one to be taken for it; -1: its reasoning, or that before it, is
  // of none of them.
  int Choose(const std::vector<int>& candidates, const text::Conversation& conversation, const ConversationKeys& keys,
             size_t message, const EchoedIds& echoed) const;
  std::string ForkCause(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                        size_t message) const;

  std::vector<Entry> calls_;
  using Calls = std::unordered_map<base::Key128, std::vector<int>, base::Key128Hash>;
  using Keys = std::unordered_set<base::Key128, base::Key128Hash>;
  Calls by_prefix_;  // by ConversationKeys::after
  Calls streamed_;   // by the key of their whole request
  Keys asked_;       // of whole requests
  Keys prefixes_no_tools_;
  Calls by_message_;                                          // by key of the delivered message
  std::unordered_map<std::string, std::string> written_ids_;  // what the model wrote, by the id it was delivered as
  bool any_reasoning_ = false;
  int64_t tokens_ = 0;
  int path_call_ = -1;             // of which PathIds was asked last
  std::vector<int32_t> path_ids_;  // what it gave
};

// The causes a fork is counted under. Nothing before the fork is continued:
inline constexpr char kForkNewConversation[] = "new_conversation";  // no assistant message: a fresh start, a sub-agent
inline constexpr char kForkToolsChanged[] = "tools_changed";        // same messages, other tools
inline constexpr char kForkHistoryRewritten[] = "history_rewritten";  // delivered, but what stood before it changed
inline constexpr char kForkCallRenamed[] = "call_renamed";            // under a known id, a call of another tool
inline constexpr char kForkArgumentsChanged[] = "arguments_changed";  // under a known id, other arguments
inline constexpr char kForkContentChanged[] = "content_changed";      // known id, other text or calls; other reasoning
inline constexpr char kForkNotFound[] = "not_found";  // an assistant message this episode never delivered
inline constexpr char kForkThinkingStripped[] = "thinking_stripped";  // the template leaves out earlier reasoning now
inline constexpr char kForkTailFailed[] = "tail_failed";              // the template cannot render the rest on its own
inline constexpr char kForkBrokenOff[] = "broken_off";  // after an answer that broke off, what is no beginning of it
inline constexpr char kForkTemplateDiffers[] = "template_differs";  // it now writes the turn or what was before anew
// An earlier call is continued, but not the newest of its branch:
inline constexpr char kForkRetry[] = "retry";               // the same request again
inline constexpr char kForkEarlierTurn[] = "earlier_turn";  // later turns were dropped, or a branch begins here

}  // namespace ingot::gateway
