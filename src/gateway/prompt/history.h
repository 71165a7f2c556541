// The calls of an episode, and the search for the call that a new request continues (law 1 of docs/internals/architecture.md).
//
//   request   [system][user][assistant A1][tool]      A1, after equal messages, equals the delivered message of call 0
//   prompt    prompt ids of call 0 | ids that call 0 sampled | RenderTail([tool])             the parent call is call 0
//
// The parent call is found by the last assistant message that equals, with its whole prefix, the delivered message of a
// call in canonical form (canonical.h). Prefixes are compared by a chain of 128-bit content keys, so a search is linear
// in the request. Ids that clients echo (of tool calls, of items, signatures) do two things: they decide between calls
// that delivered equal content, and they name the cause of a fork. They never replace equality. If no id decides, the
// conversation's name does (ConversationKeys::thread), and then the newest call is continued.
//
// Reasoning is not part of the keys, because most clients drop it. Reasoning that does come back must equal the
// delivered reasoning, in the continued message and in all earlier messages. It decides between calls that delivered
// equal text.
//
// A client may keep only a prefix of a streamed answer: the call was aborted, or the client left early. Such a message
// is continued from the ids of its text (FindKeptPrefix). The record has no segment that ends with these ids, so the
// calls that continue them store the prefix as a new segment (EndsUnrecorded).
//
// A client may write back the stop string that ended an answer, and add text after it (history_after.cc). Such a
// message is continued from the answer's ids; the text after them begins the tail.
//
// A client may send the parts of a turn as separate messages, in any order. JoinTurns joins them first.
//
// A client may begin an answer, or ask for more of it (text::Conversation::ends_begun). The call that continues it
// answers the messages before it, and delivers the whole message.
//
// Plain value, not thread safe. Segments are shared: a chain of n calls costs its tokens once.
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
#include "text/chat/chat.h"

namespace ingot::gateway {

// A segment with its content key.
struct SegmentRef {
  std::string key;
  std::shared_ptr<const v1::Segment> segment;
};

// Content keys of a conversation: after[i] is the key of its first i messages with tools and template variables.
struct ConversationKeys {
  std::vector<base::Key128> after;           // size: messages + 1
  std::vector<base::Key128> after_no_tools;  // the same without the tools
  std::vector<base::Key128> message;         // of each message by itself
  size_t first_reasoned = 0;                 // the first message with reasoning; the number of messages if none
  std::string thread = {};                   // the client's name of the conversation, not part of any key; empty = none

  static ConversationKeys Of(const text::Conversation& conversation);
};

// The key of a prefix extended by a message.
base::Key128 Chain(const base::Key128& prefix, const base::Key128& message);

// The key of the messages before a call's answer, with its tools and without.
struct AskedKey {
  base::Key128 key;
  base::Key128 no_tools;

  // `ends_begun`: the answer continues the last message.
  static AskedKey Of(const ConversationKeys& keys, bool ends_begun = false) {
    const size_t messages = keys.after.size() - 1 - (ends_begun ? 1 : 0);
    return {keys.after[messages], keys.after_no_tools[messages]};
  }
};

// The whole message that a begun answer became.
text::Message GoneOn(text::Message begun, text::Message more);

// Keys of messages' reasoning (canonical.h) by message index; messages without reasoning have none.
using ReasoningKeys = std::map<size_t, std::string>;
// Covers the messages from `first` on.
ReasoningKeys ReasoningOf(const text::Conversation& conversation, size_t first);

// A conversation whose adjacent assistant messages are joined into turns.
struct JoinedTurns {
  text::Conversation conversation;
  EchoedIds echoed;
  ConversationKeys keys;
};

class History {
 public:
  // The prefix of an answer that a client kept.
  struct KeptPrefix {
    size_t ids = 0;         // its number of sampled ids; 0 = the client's message is not a prefix of the answer
    text::Message message;  // the message that these ids decode to
  };
  // The sampled part of an answer.
  struct SampledText {
    std::span<const int32_t> ids;          // whose text may have reached the client
    const std::string& prefill;            // Call::prefill
    const text::Message* begun = nullptr;  // Call::begun; null = the client began no answer
  };
  // Compares a client's message with an answer.
  using FindKeptPrefix =
      std::function<KeptPrefix(const text::Conversation& conversation, size_t message, const SampledText& answer)>;

  // The parent call of a request.
  struct Match {
    int parent = -1;         // -1 = none: the whole conversation is rendered
    size_t first_new = 0;    // the first message of the tail
    std::string fork_cause;  // why the request begins a branch; empty = it continues the newest call, or is the first
    // The call whose answer the client cut or extended; AdoptClientTurn makes a parent of it. -1 = none.
    int kept_call = -1;
    KeptPrefix kept = {};
    std::string following = {};  // the text of the client's message after kept.ids
    bool begun = false;          // the match is the begun answer at the conversation's end
  };

  // Joins adjacent assistant messages (history_join.cc): they are one turn, which a client sent in parts, unless an
  // answer is known to have ended between them. nullopt = nothing to join. A turn consists of the first of these that
  // exists:
  //   1. The longest run of parts that equals a delivered answer to the prefix.
  //   2. The parts at the end of a conversation that a call was asked with.
  //   3. The longest run of parts that equals an answer to another prefix.
  //   4. All parts up to a part that equals an answer, or whose ids name another call.
  std::optional<JoinedTurns> JoinTurns(const text::Conversation& sent, const ConversationKeys& keys,
                                       const EchoedIds& echoed) const;

  // `echoed`: empty, or one entry per message. `find_kept` null = do not look for prefixes of answers.
  Match Find(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed = {},
             const FindKeptPrefix& find_kept = nullptr) const;

  // The conversation to render, with delivered content in place of the client's changes (history_restore.cc).
  // nullopt = the conversation as it was sent.
  //   1. A message that came without reasoning gets its delivered reasoning back, if it answers the prompt of the
  //      recorded call or carries one of that call's ids. Equal text is not enough: it may be in another conversation.
  //   2. Tool calls that were delivered under the gateway's ids get the ids that the model wrote
  //      (text::ToolCall::written_id).
  //   3. On the path to `call`, and wherever a message equals a delivered message after an equal prefix, the delivered
  //      message replaces the client's version. Ids of tool calls stay the client's.
  // REQUIRES: `call` is the parent of the conversation's match, or -1.
  std::optional<text::Conversation> Restored(const text::Conversation& conversation, const ConversationKeys& keys,
                                             const EchoedIds& echoed, int call) const;

  // How an answer ended, for clients that write back its stop string.
  struct Ending {
    std::vector<std::string> stops;  // the stop strings of its request
    std::string stop;                // the stop string that ended it; empty = none
    size_t text_ids = 0;             // ids of the last sampled segment, without an id that ended the turn
  };

  // A call with the segments after the path of its parent.
  struct Call {
    std::string call_id;
    int parent = -1;  // -1 = none
    std::vector<SegmentRef> prompt;
    std::vector<SegmentRef> sampled;
    std::string text_key;  // RenderedPrompt::text_key of its prompt; empty = unknown
    std::string prefill;   // RenderedPrompt::prefill of its prompt
    // The answer as the client began it; the delivered message starts with it. nullopt = the client began no answer.
    std::optional<text::Message> begun = {};
    size_t streamed_ids = 0;  // ids of the last sampled segment that may have reached the client in a stream
    // Per delivered tool call, its arguments as a client sends them back; empty = as the model wrote them.
    std::vector<std::string> echoed_arguments = {};
    // Reasoning of the messages after the parent's delivered message; nullopt = unknown, not compared.
    std::optional<ReasoningKeys> reasoning = {};
    Ending ending = {};
    std::string thread = {};  // ConversationKeys::thread of its request
  };
  // Adds a call and returns its index. `delivered` nullopt = the call broke off, so later requests can continue only a
  // prefix that the client kept.
  int Add(const AskedKey& asked, const std::optional<text::Message>& delivered, Call call);
  // Adds the client's form of an answer (Match::kept, Match::following) as a separate call and returns its index.
  int AdoptClientTurn(const ConversationKeys& asked, const Match& match);

  // The segments from the root to the last sampled id of the call; the empty path for -1.
  std::vector<const SegmentRef*> Path(int call) const;
  // The ids on that path, valid until the next call of this function. The last path is cached, because the next path
  // usually continues it.
  const std::vector<int32_t>& PathIds(int call);
  // The placeholders among these ids.
  std::vector<v1::Placeholders> PathPlaceholders(int call) const;
  const SegmentRef& LastSegment(int call) const { return calls_[call].refs.back(); }
  // Whether the last segment of the path is in no record, because AdoptClientTurn cut it.
  bool EndsUnrecorded(int call) const { return calls_[call].unrecorded; }
  // The number of sampled segments of the call that its record holds.
  size_t RecordedSegments(int call) const {
    const Entry& entry = calls_[call];
    return entry.refs.size() - entry.first_sampled - (entry.unrecorded ? 1 : 0);
  }
  // The delivered message of the call with this id; nullptr = no such call, or it broke off.
  const text::Message* Delivered(std::string_view call_id) const {
    for (const Entry& entry : calls_) {
      if (entry.call_id == call_id && !entry.broken_off) return &entry.delivered;
    }
    return nullptr;
  }
  const std::string& call_id(int call) const { return calls_[call].call_id; }
  const std::string& text_key(int call) const { return calls_[call].text_key; }
  // The text that a client wrote after the ids of the call, in the same message.
  const std::string& following(int call) const { return calls_[call].following; }
  // All ids that the call sampled.
  std::vector<int32_t> Sampled(int call) const;
  // Excludes answers that clients changed (AdoptClientTurn).
  size_t size() const { return calls_.size() - adopted_; }
  // Ids in all segments, shared ones counted once.
  int64_t tokens() const { return tokens_; }

 private:
  struct Entry {
    std::string call_id;
    int parent = -1;
    int turn_before = -1;  // the call that delivered the answer before this one's: the parent, or a call before it
    std::vector<SegmentRef> refs;
    size_t first_sampled = 0;  // index into pieces
    std::string text_key;
    text::Message delivered;
    std::vector<std::string> echoed_arguments;  // Call::echoed_arguments
    std::string delivered_reasoning;            // key of the delivered reasoning
    std::optional<ReasoningKeys> asked_reasoning;
    base::Key128 asked = {};  // AskedKey::key
    std::string prefill;
    std::optional<text::Message> begun;  // Call::begun
    size_t streamed_ids = 0;
    bool broken_off = false;  // `delivered` is empty
    bool unrecorded = false;  // AdoptClientTurn made it: its last segment is in no record
    bool continued = false;   // another call continues it
    Ending ending;            // of an answer that was delivered
    std::string following;    // AdoptClientTurn made it: Match::following
    int adopted_from = -1;    // the call of which AdoptClientTurn made it
    std::string thread;
  };
  // The id that the model wrote for a call that a client sent.
  const std::string& WrittenId(const text::ToolCall& call) const;
  // The call that delivered that message as an answer to its prefix; -1 = none.
  int DeliveredAs(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                  size_t message) const;
  // The reasoning that was delivered in that message and that the client left out; nullptr = none.
  const std::string* DroppedReasoning(const text::Conversation& conversation, const ConversationKeys& keys,
                                      const EchoedIds& echoed, size_t message) const;

  // Makes the call findable by its delivered message.
  void Index(const AskedKey& asked, int call);
  // The streamed answer to the prefix before `message` of which `message` is a prefix: the first in Ordered.
  Match MatchKeptPrefix(const text::Conversation& conversation, const ConversationKeys& keys, size_t message,
                        const EchoedIds& echoed, const FindKeptPrefix& find_kept) const;
  // The match of the begun answer at the conversation's end with `call`, which delivered it. A stop string and an end
  // of the turn follow it, so the ids before them are continued.
  Match MatchBegun(const text::Conversation& conversation, int call, const FindKeptPrefix& find_kept) const;
  // An answer to the prefix before `message`, if `message` begins with it and a stop string of its request: the first
  // in Ordered.
  Match MatchAfter(const text::Conversation& conversation, const ConversationKeys& keys, size_t message,
                   const EchoedIds& echoed) const;
  // The content of a client's message that begins with the call's answer and a stop string, in the answer's spelling.
  // nullopt = it does not begin with them.
  struct GrownAnswer {
    std::string content;
    size_t following = 0;  // offset of the text that was not sampled
  };
  std::optional<GrownAnswer> GrownAnswerOf(int call, const text::Message& sent) const;
  // The delivered message of the call as a client sends it back.
  text::Message Echoed(int call) const;
  // Whether `message` carries an id of the call's delivered message.
  bool Names(int call, const text::Message& message, const std::vector<std::string>* ids) const;
  // The newest call, after any prefix, that delivered this content and is named by an id in `message`; -1 = none.
  int NamedElsewhere(const text::Message& message, const base::Key128& key, const std::vector<std::string>* ids) const;
  // The newest call that an id in `message` names; -1 = none.
  int NamedCall(const text::Message& message, const std::vector<std::string>* ids) const;
  struct TurnParts {
    size_t count = 0;
    const char* between = "";  // stands between the texts of two parts
  };
  // The parts of the turn that begins with message `first` after the prefix `before`, among messages [first, end).
  TurnParts PartsOfTurn(const text::Conversation& conversation, size_t first, size_t end, const base::Key128& before,
                        const EchoedIds& echoed) const;
  // The index below `end` of the message that answers the call's prompt; `end` = none.
  size_t AnswerOf(int call, const ConversationKeys& keys, size_t end) const;
  // Whether all reasoning before `message`, the answer of `call`, was dropped or equals the reasoning in the call's
  // prompt.
  bool SameReasoningBefore(size_t message, const text::Conversation& conversation, const ConversationKeys& keys,
                           int call) const;
  // The calls in the order in which they may own a message: calls named by an id in it, then calls of its thread, then
  // others; the newest first within each group.
  std::vector<int> Ordered(const std::vector<int>& calls, const text::Message& message,
                           const std::vector<std::string>* ids, const std::string& thread) const;
  // The message's call among `candidates`, which delivered equal content: the first in Ordered. -1 = none has the
  // reasoning that came with the message or before it.
  int Choose(const std::vector<int>& candidates, const text::Conversation& conversation, const ConversationKeys& keys,
             size_t message, const EchoedIds& echoed) const;
  // Whether a call of this thread was asked with the same conversation.
  bool WasAsked(const ConversationKeys& keys) const;
  // The cause why the assistant message `message` matches no call.
  std::string ForkCause(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                        size_t message) const;

  std::vector<Entry> calls_;
  using Calls = std::unordered_map<base::Key128, std::vector<int>, base::Key128Hash>;
  using Keys = std::unordered_set<base::Key128, base::Key128Hash>;
  Calls by_prefix_;         // by ConversationKeys::after, the delivered message included
  Calls streamed_;          // by the key of their whole conversation
  Calls stoppable_;         // with stop strings, by the key of their whole conversation
  Keys asked_;              // keys of whole conversations
  Keys asked_by_;           // the same with the names of their threads
  Keys prefixes_no_tools_;  // the keys of by_prefix_ without tools
  Calls by_message_;        // by the key of only the delivered message
  std::unordered_map<std::string, std::string> written_ids_;  // ids that the model wrote, by the delivered id
  bool any_reasoning_ = false;
  size_t adopted_ = 0;  // calls that AdoptClientTurn made
  int64_t tokens_ = 0;
  int path_call_ = -1;             // the last argument of PathIds
  std::vector<int32_t> path_ids_;  // its result
};

// The causes of forks.
// No message before the fork is continued:
inline constexpr char kForkNewConversation[] = "new_conversation";  // no assistant message: a fresh start, a sub-agent
inline constexpr char kForkToolsChanged[] = "tools_changed";        // equal messages, other tools
inline constexpr char kForkHistoryRewritten[] = "history_rewritten";  // a delivered message after changed messages
inline constexpr char kForkCallRenamed[] = "call_renamed";            // a known id with a call of another tool
inline constexpr char kForkArgumentsChanged[] = "arguments_changed";  // a known id with other arguments
inline constexpr char kForkContentChanged[] =
    "content_changed";                                // a known id with other text or calls, other reasoning
inline constexpr char kForkNotFound[] = "not_found";  // an assistant message that was never delivered here
inline constexpr char kForkThinkingStripped[] = "thinking_stripped";  // the template now leaves out earlier reasoning
inline constexpr char kForkTailFailed[] = "tail_failed";              // the template cannot render the tail
inline constexpr char kForkBrokenOff[] = "broken_off";                // not a prefix of the answer that broke off there
inline constexpr char kForkTemplateDiffers[] = "template_differs";  // the template now writes earlier text differently
// An earlier call is continued instead of the newest call of its branch:
inline constexpr char kForkRetry[] = "retry";               // the same request again
inline constexpr char kForkEarlierTurn[] = "earlier_turn";  // later turns were dropped, or a branch begins here

}  // namespace ingot::gateway
