// Stores an episode's calls and finds the call that a new request continues (law 1 in docs/internals/architecture.md).
//
//   request   [system][user][assistant A1][tool]      A1, after equal messages, equals the delivered message of call 0
//   prompt    prompt ids of call 0 | ids that call 0 sampled | RenderTail([tool])             the parent call is call 0
//
// The parent call is found through an assistant message. The message and its entire prefix must equal a call's
// delivered message and prefix in canonical form (canonical.h). The search uses the last such message. Prefixes are
// compared by a chain of 128-bit content keys, so a search takes time linear in the request's length. Ids that clients
// echo (tool call, item, and signature ids) have two uses: they decide between calls that delivered equal content, and
// they determine the cause of a fork. They are never a substitute for equality. If no id decides, the conversation's
// name does (ConversationKeys::thread). Otherwise, the newest call is continued.
//
// The keys exclude reasoning because most clients drop it. Reasoning that a client sends back must equal the delivered
// reasoning, in the continued message and in all earlier ones. It also decides between messages with equal text.
//
// A client may keep only a prefix of a streamed answer if the call was aborted or the client disconnected early. Such a
// message is continued from the ids from which its text was decoded (FindKeptPrefix). No recorded segment ends with
// these ids, so the calls that continue them store the prefix as a new segment (EndsUnrecorded).
//
// A client may send back the stop string that ended an answer and append text to it (history_after.cc). Such a message
// is continued from the answer's ids. The text after them begins the tail.
//
// A client may send the parts of a turn as separate messages, in any order. JoinTurns joins them first.
//
// A client may begin an answer itself or request more of an earlier answer (text::Conversation::ends_begun). The call
// that continues it has the preceding messages as its prompt and delivers the complete message.
//
// Plain value. Not thread safe. Segments are shared, so a chain of n calls stores its tokens only once.
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

// A segment and its content key.
struct SegmentRef {
  std::string key;
  std::shared_ptr<const v1::Segment> segment;

  size_t size() const { return static_cast<size_t>(segment->token_ids_size()); }  // ids
};

// A conversation's content keys. after[i] is the key for the first i messages with tools and template variables.
struct ConversationKeys {
  std::vector<base::Key128> after;           // size: messages + 1
  std::vector<base::Key128> after_no_tools;  // same as `after`, but without tools
  std::vector<base::Key128> message;         // key for each message by itself
  size_t first_reasoned = 0;  // index of the first message with reasoning; the number of messages if there is none
  std::string thread = {};    // the client's name for the conversation, not part of any key; empty = none

  static ConversationKeys Of(const text::Conversation& conversation);
};

// Returns the key for a prefix extended by a message.
base::Key128 Chain(const base::Key128& prefix, const base::Key128& message);

// Keys for the messages before a call's answer, with and without tools.
struct RequestKey {
  base::Key128 key;
  base::Key128 no_tools;

  // `ends_begun` is true if the answer continues the last message.
  static RequestKey Of(const ConversationKeys& keys, bool ends_begun = false) {
    const size_t messages = keys.after.size() - 1 - (ends_begun ? 1 : 0);
    return {keys.after[messages], keys.after_no_tools[messages]};
  }
};

// Returns the complete message: the part that the client began, followed by the model's part.
text::Message ContinuedMessage(text::Message begun, text::Message more);

// Keys for the reasoning in messages (canonical.h), by message index. Messages without reasoning have no entry.
using ReasoningKeys = std::map<size_t, std::string>;
// Covers the messages starting with `first`.
ReasoningKeys ReasoningOf(const text::Conversation& conversation, size_t first);

// A conversation whose adjacent assistant messages were joined into turns.
struct JoinedTurns {
  text::Conversation conversation;
  EchoedIds echoed;
  ConversationKeys keys;
};

class History {
 public:
  // An answer's prefix that a client kept.
  struct KeptPrefix {
    size_t ids = 0;         // number of its sampled ids; 0 = the client's message is not a prefix of the answer
    text::Message message;  // the message that these ids decode to
  };
  // An answer's sampled part.
  struct SampledText {
    std::span<const int32_t> ids;          // ids whose text may have reached the client
    const std::string& prefill;            // Call::prefill
    const text::Message* begun = nullptr;  // Call::begun; null = the client did not begin the answer
  };
  // Compares a client's message with an answer.
  using FindKeptPrefix =
      std::function<KeptPrefix(const text::Conversation& conversation, size_t message, const SampledText& answer)>;

  // A request's parent call.
  struct Match {
    int parent = -1;       // -1 = none, so the entire conversation is rendered
    size_t first_new = 0;  // index of the first message in the tail
    // Why the request begins a branch; empty = it continues the newest call or is the first request.
    std::string fork_cause;
    // The call whose answer the client truncated or extended. AdoptClientTurn turns it into a parent. -1 = none.
    int kept_call = -1;
    KeptPrefix kept = {};
    std::string following = {};  // text of the client's message after kept.ids
    bool begun = false;          // the match is the begun answer at the end of the conversation
  };

  // Joins adjacent assistant messages (history_join.cc). They count as one turn that a client sent in parts, unless an
  // answer is known to have ended between them. Returns nullopt if there is nothing to join. A turn consists of the
  // first of these that exists:
  // 1. The longest run of parts that equals a delivered answer to the prefix.
  // 2. The parts at the end of a conversation that was a call's prompt.
  // 3. The longest run of parts that equals an answer to another prefix.
  // 4. All parts up to a part that equals an answer, or that has another call's id.
  std::optional<JoinedTurns> JoinTurns(const text::Conversation& sent, const ConversationKeys& keys,
                                       const EchoedIds& echoed) const;

  // Finds the parent call. `echoed` is empty or has one entry per message. If `find_kept` is null, answer prefixes are
  // not considered.
  Match Find(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed = {},
             const FindKeptPrefix& find_kept = nullptr) const;

  // Returns the conversation to render, with the client's changes replaced by the delivered content
  // (history_restore.cc). Returns nullopt if that is the conversation as sent.
  // 1. A message that lacks reasoning gets its delivered reasoning back if it answers the recorded call's prompt or has
  //    one of that call's ids. Equal text is not enough because the same text may occur in another conversation.
  // 2. Tool calls that were delivered with ids from the gateway get the ids that the model wrote
  //    (text::ToolCall::written_id).
  // 3. On the path to `call`, and wherever a message equals a delivered message after an equal prefix, the delivered
  //    message replaces the client's version. Tool calls keep the client's ids.
  //
  // REQUIRES: `call` is the parent of the conversation's match, or -1.
  std::optional<text::Conversation> Restored(const text::Conversation& conversation, const ConversationKeys& keys,
                                             const EchoedIds& echoed, int call) const;

  // Describes how an answer ended. Used for clients that send back its stop string.
  struct Ending {
    std::vector<std::string> stops;  // the request's stop strings
    std::string stop;                // the stop string that ended it; empty = none
    size_t text_ids = 0;             // sampled ids, excluding an id that ended the turn
  };

  // A call and the segments that follow its parent's path.
  struct Call {
    std::string call_id;
    int parent = -1;  // -1 = none
    std::vector<SegmentRef> prompt;
    std::vector<SegmentRef> sampled;
    std::string text_key;  // the prompt's RenderedPrompt::text_key; empty = unknown
    std::string prefill;   // the prompt's RenderedPrompt::prefill
    // The beginning of the answer, if the client wrote it. The delivered message starts with it. nullopt = none.
    std::optional<text::Message> begun = {};
    size_t streamed_ids = 0;  // sampled ids that may have been streamed to the client
    // The arguments of each delivered tool call, as a client sends them back. Empty = as the model wrote them.
    std::vector<std::string> echoed_arguments = {};
    // Reasoning in the messages after the parent's delivered message. nullopt = unknown, so it is not compared.
    std::optional<ReasoningKeys> reasoning = {};
    Ending ending = {};
    std::string thread = {};  // the request's ConversationKeys::thread
  };
  // Adds a call and returns its index. `delivered` is nullopt if the call was cut off. In that case, later requests can
  // continue only a prefix that the client kept.
  int Add(const RequestKey& asked, const std::optional<text::Message>& delivered, Call call);
  // Adds a client's version of an answer (Match::kept, Match::following) as a separate call and returns its index.
  int AdoptClientTurn(const ConversationKeys& asked, const Match& match);

  // Returns the segments from the root to the call's last sampled id, or an empty path for -1.
  std::vector<const SegmentRef*> Path(int call) const;
  // Returns the ids on that path, valid until the next call to this function. Caches the last path because the next one
  // usually continues it.
  const std::vector<int32_t>& PathIds(int call);
  // Returns the placeholders among these ids.
  std::vector<v1::Placeholders> PathPlaceholders(int call) const;
  const SegmentRef& LastSegment(int call) const { return calls_[call].refs.back(); }
  // Returns true if the path's last segment is not in any record because AdoptClientTurn cut it.
  bool EndsUnrecorded(int call) const { return calls_[call].unrecorded; }
  // Returns the number of sampled segments in the call's record.
  size_t RecordedSegments(int call) const {
    const Entry& entry = calls_[call];
    return entry.refs.size() - entry.first_sampled - (entry.unrecorded ? 1 : 0);
  }
  // Returns the message that the call with this id delivered, or nullptr if there is no such call or it was cut off.
  const text::Message* Delivered(std::string_view call_id) const {
    for (const Entry& entry : calls_) {
      if (entry.call_id == call_id && !entry.broken_off) return &entry.delivered;
    }
    return nullptr;
  }
  const std::string& call_id(int call) const { return calls_[call].call_id; }
  const std::string& text_key(int call) const { return calls_[call].text_key; }
  // Returns the text that a client wrote after the call's ids in the same message.
  const std::string& following(int call) const { return calls_[call].following; }
  // Returns all ids that the call sampled.
  std::vector<int32_t> Sampled(int call) const;
  // Returns the number of calls, excluding those made by AdoptClientTurn.
  size_t size() const { return calls_.size() - adopted_; }
  // Returns the number of ids in all segments. Shared segments count once.
  int64_t tokens() const { return tokens_; }

 private:
  struct Entry {
    std::string call_id;
    int parent = -1;
    int turn_before = -1;  // the call that delivered the previous answer: the parent or one of its ancestors
    std::vector<SegmentRef> refs;
    size_t first_sampled = 0;  // index into refs
    std::string text_key;
    text::Message delivered;
    std::vector<std::string> echoed_arguments;  // Call::echoed_arguments
    std::string delivered_reasoning;            // key of the delivered reasoning
    std::optional<ReasoningKeys> asked_reasoning;
    base::Key128 asked = {};  // RequestKey::key
    std::string prefill;
    std::optional<text::Message> begun;  // Call::begun
    size_t streamed_ids = 0;
    bool broken_off = false;  // `delivered` is empty
    bool unrecorded = false;  // created by AdoptClientTurn; the last segment is not in any record
    bool continued = false;   // another call continues it
    Ending ending;            // how a delivered answer ended
    std::string following;    // set by AdoptClientTurn: Match::following
    int adopted_from = -1;    // the call from which AdoptClientTurn created it
    std::string thread;
  };
  // Returns the id that the model wrote for a call in a client's message.
  const std::string& WrittenId(const text::ToolCall& call) const;
  // Returns the call that delivered this message as an answer to its prefix, or -1 if there is none.
  int DeliveredAs(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                  size_t message) const;
  // Returns the reasoning that was delivered in this message and that the client dropped, or nullptr if there is none.
  const std::string* DroppedReasoning(const text::Conversation& conversation, const ConversationKeys& keys,
                                      const EchoedIds& echoed, size_t message) const;

  // Makes the call findable by its delivered message.
  void Index(const RequestKey& asked, int call);
  // Finds a streamed answer to the prefix before `message` that begins with `message`. Uses the first in the order of
  // Ordered.
  Match MatchKeptPrefix(const text::Conversation& conversation, const ConversationKeys& keys, size_t message,
                        const EchoedIds& echoed, const FindKeptPrefix& find_kept) const;
  // Matches `call` with the begun answer at the end of the conversation, which `call` delivered. Continues from the ids
  // before the stop string and the end of turn, because these come after the answer.
  Match MatchBegun(const text::Conversation& conversation, int call, const FindKeptPrefix& find_kept) const;
  // Finds an answer to the prefix before `message`, where `message` begins with the answer and one of its request's
  // stop strings. Uses the first in the order of Ordered.
  Match MatchAfter(const text::Conversation& conversation, const ConversationKeys& keys, size_t message,
                   const EchoedIds& echoed) const;
  // The content of a client's message that begins with the call's answer and a stop string, with the answer's original
  // spelling. nullopt = the message does not begin with them.
  struct GrownAnswer {
    std::string content;
    size_t following = 0;  // offset of the unsampled text
  };
  std::optional<GrownAnswer> GrownAnswerOf(int call, const text::Message& sent) const;
  // Returns the call's delivered message as a client sends it back.
  text::Message Echoed(int call) const;
  // Returns true if `message` has an id from the call's delivered message.
  bool Names(int call, const text::Message& message, const std::vector<std::string>* ids) const;
  // Returns the newest call, after any prefix, that delivered this content and has an id in `message`. -1 = none.
  int NamedElsewhere(const text::Message& message, const base::Key128& key, const std::vector<std::string>* ids) const;
  // Returns the newest call that has an id in `message`. -1 = none.
  int NamedCall(const text::Message& message, const std::vector<std::string>* ids) const;
  struct TurnParts {
    size_t count = 0;
    const char* between = "";  // separator between the text of two parts
  };
  // Returns the parts within [first, end) of the turn that begins with message `first` after the prefix `before`.
  TurnParts PartsOfTurn(const text::Conversation& conversation, size_t first, size_t end, const base::Key128& before,
                        const EchoedIds& echoed) const;
  // Returns the index of the message before `end` that answers the call's prompt, or `end` if there is none.
  size_t AnswerOf(int call, const ConversationKeys& keys, size_t end) const;
  // Returns true if all reasoning before `message`, which is `call`'s answer, was dropped or equals the reasoning in
  // the call's prompt.
  bool SameReasoningBefore(size_t message, const text::Conversation& conversation, const ConversationKeys& keys,
                           int call) const;
  // Orders the calls by how likely they are to own a message: first calls with an id in it, then calls in its thread,
  // then others. Newer calls come first within each group.
  std::vector<int> Ordered(const std::vector<int>& calls, const text::Message& message,
                           const std::vector<std::string>* ids, const std::string& thread) const;
  // Returns the message's call among `candidates`, which delivered equal content. Uses the first, in the order of
  // Ordered, whose reasoning matches the reasoning in and before the message. -1 = none.
  int Choose(const std::vector<int>& candidates, const text::Conversation& conversation, const ConversationKeys& keys,
             size_t message, const EchoedIds& echoed) const;
  // Returns true if a call in this thread had this conversation as its prompt.
  bool WasAsked(const ConversationKeys& keys) const;
  // Returns why the assistant message `message` does not match any call.
  std::string ForkCause(const text::Conversation& conversation, const ConversationKeys& keys, const EchoedIds& echoed,
                        size_t message) const;

  std::vector<Entry> calls_;
  using Calls = std::unordered_map<base::Key128, std::vector<int>, base::Key128Hash>;
  using Keys = std::unordered_set<base::Key128, base::Key128Hash>;
  Calls by_prefix_;         // by ConversationKeys::after, including the delivered message
  Calls streamed_;          // streamed calls, by their prompt's conversation key
  Calls stoppable_;         // calls with stop strings, by their prompt's conversation key
  Keys asked_;              // keys for the conversations in prompts
  Keys asked_by_;           // the same keys, combined with the thread's name
  Keys prefixes_no_tools_;  // the keys of by_prefix_, without tools
  Calls by_message_;        // by the key for the delivered message by itself
  std::unordered_map<std::string, std::string> written_ids_;  // ids that the model wrote, by delivered id
  bool any_reasoning_ = false;
  size_t adopted_ = 0;  // number of calls created by AdoptClientTurn
  int64_t tokens_ = 0;
  int path_call_ = -1;             // PathIds's last argument
  std::vector<int32_t> path_ids_;  // its result
};

// Fork causes.
//
// Causes when no earlier message is continued:
inline constexpr char kForkNewConversation[] = "new_conversation";    // no assistant message: fresh start, sub-agent
inline constexpr char kForkToolsChanged[] = "tools_changed";          // equal messages, but different tools
inline constexpr char kForkHistoryRewritten[] = "history_rewritten";  // a delivered message after changed messages
inline constexpr char kForkCallRenamed[] = "call_renamed";            // a known id, but a call to another tool
inline constexpr char kForkArgumentsChanged[] = "arguments_changed";  // a known id, but different arguments
inline constexpr char kForkContentChanged[] = "content_changed";  // a known id, but different text, calls, or reasoning
inline constexpr char kForkNotFound[] = "not_found";              // an assistant message that was never delivered here
inline constexpr char kForkThinkingStripped[] = "thinking_stripped";  // the template now omits earlier reasoning
inline constexpr char kForkTailFailed[] = "tail_failed";              // the template cannot render the tail
inline constexpr char kForkBrokenOff[] = "broken_off";                // not a prefix of the cut-off answer
inline constexpr char kForkTemplateDiffers[] = "template_differs";  // the template now renders earlier text differently
// Causes when an earlier call is continued instead of its branch's newest call:
inline constexpr char kForkRetry[] = "retry";               // the same request was sent again
inline constexpr char kForkEarlierTurn[] = "earlier_turn";  // later turns were dropped, or a branch begins here

}  // namespace ingot::gateway
