// Compares a sampled turn with the text that a chat template writes for it once more messages follow.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/chat/chat.h"
#include "text/chat/template_layout.h"
#include "text/jinja/template.h"
#include "text/output/output_row.h"

namespace ingot::text {

struct TurnView {
  const Message& message;               // the sampled turn as the output format reads it, reasoning included
  std::string_view prompt;              // the turn's header and the prefill of the answer
  std::span<const int32_t> ids;         // the sampled ids
  std::string_view sampled;             // their text, without the text of the id that ended the turn
  const jinja::RenderedText& rendered;  // the conversation as the template writes it
  Region written;                       // the turn in `rendered`, from its header to its closing token
};

enum class ThoughtMatch {
  kSame,   // both sides have a thought's marks or neither does, and the template writes the reasoning
  kLost,   // the template leaves out the reasoning, or the marks of an empty thought
  kAdded,  // the template writes a thought's marks where no thought was sampled
};

// Finds thoughts in turns. Immutable, thread safe.
class ThoughtComparer {
 public:
  ThoughtComparer(std::shared_ptr<const Tokenizer> tokenizer, const OutputRow& row)
      : tokenizer_(std::move(tokenizer)), begin_(row.think_begin), end_(row.think_end) {}

  ThoughtMatch Compare(const TurnView& turn) const;
  // Whether `region` of the rendered text contains the message's reasoning. True for a message without reasoning.
  static bool Reasons(const jinja::RenderedText& rendered, const Region& region, const Message& message);
  // Whether `before` has a thought's marks at `common`, where it differs from a later rendering.
  bool PartsAtThought(std::string_view before, size_t common) const;
  // `text` without its first empty thought after `from` and the white space after it. Unchanged without such a thought.
  std::string WithoutEmptyThought(std::string_view text, size_t from) const;

 private:
  bool Sampled(const TurnView& turn) const;
  bool Written(const TurnView& turn) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::string begin_, end_;  // the marks of a thought; empty: the format has no thoughts
};

}  // namespace ingot::text
