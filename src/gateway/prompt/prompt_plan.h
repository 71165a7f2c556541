// Plans a request's prompt: the ids of the call that it continues, followed by newly rendered ids.
//
// If a prompt continues a parent call, its text is the template's rendering of the request's conversation, with sampled
// ids in place of the continued turns. Three checks guarantee this:
// 1. Each continued turn in the request equals its call's delivered message in canonical form (history.h).
// 2. Given the turns as they were delivered, the template still renders the parent's prompt text. The check compares
//    the keys of both strings (text::TextKey), from child to parent, up to a prompt that was rendered in full. It
//    catches differences that canonical forms ignore but the template may print, such as tool call ids, other fields,
//    and the date.
// 3. The tail is the template's text after the end of the turn, and the template's text contains the turn as sampled
//    (text::ChatFormat::RenderTail).
//
// If check 2 or 3 fails, the entire conversation is rendered, and the fork is counted with its cause. With
// gateway.history_thinking = keep, check 2 compares conversations without reasoning, and check 3 looks only for the
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

// A request's parent call, with copies of the path data that the prompt needs.
struct Continuation {
  History::Match match;   // match.parent -1 = no parent, so only `keys`, `asked`, and `conversation` are set
  ConversationKeys keys;  // the conversation's keys after its turns were joined
  RequestKey asked = {};  // keys for the messages before the answer, excluding a message that the answer continues
  std::string parent_call_id;
  std::vector<int32_t> ids;                    // ids on the parent's path, including its sampled ids
  std::vector<v1::Placeholders> placeholders;  // placeholders in `ids`
  size_t recorded_segments = 0;                // sampled segments in the parent's record
  std::optional<SegmentRef> unrecorded;  // the segment after them, if it is not in any record (History::EndsUnrecorded)
  // If the parent is a call in the trunk, keys of the recorded segments on its path. Empty = the parent is a call in
  // this episode.
  std::vector<std::string> trunk_path;
  std::string text_key;              // the parent prompt's text key
  std::vector<int32_t> parent_turn;  // ids that the parent sampled
  std::string following;             // the client's text after that turn, in the same message
  int epoch = 0;                     // epoch of the history that `match` refers to
  // The conversation to render if it differs from the request's (History::JoinTurns, History::Restored).
  std::optional<text::Conversation> conversation;
};

struct PromptPlan {
  bool raw = false;                            // the prompt was sent as text or ids; later requests cannot continue it
  Continuation continued;                      // keys are empty if raw
  std::vector<SegmentRef> refs;                // prompt segments after the continued path
  std::vector<int32_t> ids;                    // the full prompt
  std::vector<v1::Placeholders> placeholders;  // placeholders in `ids`
  std::string prefill;                         // text::RenderedPrompt::prefill
  // The beginning of the answer, if the client wrote it. The model continues after its content. nullopt = none.
  std::optional<text::Message> begun;
  std::string text_key;           // text::RenderedPrompt::text_key
  ReasoningKeys reasoning;        // reasoning in the tail's messages
  text::Concessions concessions;  // text::RenderedPrompt::concessions
};

// Plans prompts for one tokenizer and chat format. Immutable and thread safe.
class PromptPlanner {
 public:
  // If `keeps_reasoning` is true, earlier reasoning stays in the prompt even if the template would omit it
  // (gateway.history_thinking = keep). `vocab_size` is the model's vocabulary size. The tokenizer's size is used if it
  // is larger.
  PromptPlanner(std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<const text::ChatFormat> format,
                bool keeps_reasoning, int32_t vocab_size = 0)
      : tokenizer_(std::move(tokenizer)),
        format_(std::move(format)),
        keeps_reasoning_(keeps_reasoning),
        vocab_size_(std::max(vocab_size, tokenizer_->vocab_size())) {}

  // Plans the prompt for the request's conversation. Returns INVALID_ARGUMENT if it cannot be rendered, and TooManyIds
  // (text/tokenizer/id_bound.h) if the prompt is certain to have more than `most_ids` ids. In that case, its text was
  // not encoded.
  absl::StatusOr<PromptPlan> Plan(const text::Conversation& conversation, Continuation continued,
                                  size_t most_ids = text::kAnyNumberOfIds) const;
  // Plans a prompt from `ids`. If there are none, uses `text` and recognizes special tokens in it. Returns
  // INVALID_ARGUMENT if the prompt has no tokens or has an id outside the vocabulary, and TooManyIds like Plan.
  absl::StatusOr<PromptPlan> PlanRaw(std::string_view text, std::span<const int32_t> ids,
                                     size_t most_ids = text::kAnyNumberOfIds) const;

  // Implements History::FindKeptPrefix: returns the fewest ids that decode to the client's message. Returns no ids for
  // a message with tool calls because clients do not keep truncated calls.
  History::KeptPrefix KeptPrefixOf(const text::Conversation& conversation, size_t message,
                                   const History::SampledText& answer) const;

 private:
  absl::Status RenderWhole(const text::Conversation& conversation, size_t most_ids, PromptPlan& plan) const;
  // Appends the tail to the parent's path. Returns the cause of a fork, or "" if there is no fork.
  absl::StatusOr<std::string> Continue(const text::Conversation& conversation, size_t most_ids, PromptPlan& plan) const;
  std::string PrefillIn(std::span<const int32_t> prompt) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::shared_ptr<const text::ChatFormat> format_;
  const bool keeps_reasoning_;
  const int32_t vocab_size_;
};

}  // namespace ingot::gateway
