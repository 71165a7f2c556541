// The prompt of a request: the ids of the call that it continues, and the ids that are rendered for it.
//
// A prompt that continues a parent call is, text for text, the template's rendering of the request's conversation, with
// sampled ids in place of the continued turns. Three checks guarantee it:
//   1. Each continued turn of the request equals, in canonical form, the delivered message of its call (history.h).
//   2. The template still writes the text that the parent's prompt was made of, given the turns as they were delivered.
//      The keys of both texts are compared (text::TextKey), from child to parent up to a prompt that was rendered as a
//      whole. This catches differences that canonical forms ignore and the template may print: ids of tool calls,
//      other fields, the date.
//   3. The tail is the template's text after the turn's end, and the template's text has the turn as it was sampled
//      (text::ChatFormat::RenderTail).
// If 2 or 3 fails, the whole conversation is rendered and the cause of the fork is counted. With
// gateway.history_thinking keep, check 2 compares conversations without reasoning, and check 3 looks only for the
// turn's end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gateway/prompt/history.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::gateway {

// The parent call of a request, with a copy of the parts of its path that a prompt needs.
struct Continuation {
  History::Match match;   // match.parent -1 = no parent; then only `keys`, `asked` and `conversation` are set
  ConversationKeys keys;  // of the request's conversation, its turns joined
  AskedKey asked = {};    // of the messages before the answer, without a message that it continues
  std::string parent_call_id;
  std::vector<int32_t> ids;                    // of the parent's path, its sampled ids included
  std::vector<v1::Placeholders> placeholders;  // of `ids`
  size_t recorded_segments = 0;                // sampled segments of the parent that its record holds
  std::optional<SegmentRef> unrecorded;  // the segment after them, if it is in no record (History::EndsUnrecorded)
  // If the parent is a call of the trunk: the keys of its path, only recorded segments. Empty = it is of this episode.
  std::vector<std::string> trunk_path;
  std::string text_key;              // of the parent's prompt
  std::vector<int32_t> parent_turn;  // ids that the parent sampled
  std::string following;             // the client's text after that turn, in the same message
  int epoch = 0;                     // of the history that `match` refers to
  // The conversation to render, if it differs from the request's (History::JoinTurns, History::Restored).
  std::optional<text::Conversation> conversation;
};

struct PromptPlan {
  bool raw = false;                            // the prompt came as text or ids; no later request continues it
  Continuation continued;                      // its keys are empty if raw
  std::vector<SegmentRef> refs;                // segments of the prompt after the continued path
  std::vector<int32_t> ids;                    // the whole prompt
  std::vector<v1::Placeholders> placeholders;  // of `ids`
  std::string prefill;                         // text::RenderedPrompt::prefill
  // The answer as the client began it; the model continues after its content. nullopt = the client began no answer.
  std::optional<text::Message> begun;
  std::string text_key;           // text::RenderedPrompt::text_key
  ReasoningKeys reasoning;        // of the messages in the tail
  text::Concessions concessions;  // text::RenderedPrompt::concessions
};

// Makes prompts with one tokenizer and chat format. Immutable, thread safe.
class PromptPlanner {
 public:
  // `keeps_reasoning`: earlier reasoning stays in the prompt even if the template would leave it out
  // (gateway.history_thinking keep). `vocab_size`: the model's; the tokenizer's if that is larger.
  PromptPlanner(std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<const text::ChatFormat> format,
                bool keeps_reasoning, int32_t vocab_size = 0)
      : tokenizer_(std::move(tokenizer)),
        format_(std::move(format)),
        keeps_reasoning_(keeps_reasoning),
        vocab_size_(std::max(vocab_size, tokenizer_->vocab_size())) {}

  // `conversation`: the request's. INVALID_ARGUMENT: it cannot be rendered. TooManyIds (text/tokenizer/id_bound.h): the
  // prompt surely has more than `most_ids`, and its text was not encoded.
  absl::StatusOr<PromptPlan> Plan(const text::Conversation& conversation, Continuation continued,
                                  size_t most_ids = text::kAnyNumberOfIds) const;
  // A prompt of `ids` or, if there are none, of `text`, in which special tokens are recognized. INVALID_ARGUMENT: it
  // has no tokens, or an id that the model does not know. TooManyIds as from Plan.
  absl::StatusOr<PromptPlan> PlanRaw(std::string_view text, std::span<const int32_t> ids,
                                     size_t most_ids = text::kAnyNumberOfIds) const;

  // History::FindKeptPrefix: the fewest ids that decode to the client's message. None for a message with tool calls,
  // because clients do not keep calls cut at ids.
  History::KeptPrefix KeptPrefixOf(const text::Conversation& conversation, size_t message,
                                   const History::SampledText& answer) const;

 private:
  absl::Status RenderWhole(const text::Conversation& conversation, size_t most_ids, PromptPlan& plan) const;
  // Appends the tail to the parent's path. Returns the cause of a fork; empty = no fork.
  absl::StatusOr<std::string> Continue(const text::Conversation& conversation, size_t most_ids, PromptPlan& plan) const;
  std::string PrefillIn(std::span<const int32_t> prompt) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::shared_ptr<const text::ChatFormat> format_;
  const bool keeps_reasoning_;
  const int32_t vocab_size_;
};

}  // namespace ingot::gateway
