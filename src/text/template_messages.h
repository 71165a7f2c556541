// A conversation as the variables of a chat template.
#pragma once

#include <memory>
#include <vector>

#include "text/chat.h"
#include "text/chat_template.h"

namespace ingot::text {

// How a template wants what templates disagree on. Found out by trying (ProbeDialect).
struct TemplateDialect {
  // Content of an assistant message that has none but calls tools.
  enum class NoContent { kEmpty, kNull, kAbsent };
  NoContent no_content = NoContent::kEmpty;
  // tool_calls[].function.arguments: the object (as Hugging Face documents it), or its JSON text, for templates that
  // join texts. Text that is no JSON object is always passed as text.
  bool arguments_as_text = false;
  // Ids of calls must be nine letters or digits (Mistral): any other is shown as nine that stand for it.
  bool short_ids = false;

  bool operator==(const TemplateDialect&) const = default;
};

// Variables of one conversation; its messages are made once and rendered as often as needed. Calls, and results that
// answer them, have the ids that the model wrote, where it did.
struct TemplateInput {
  std::vector<jinja::Value> messages;  // dicts; the texts of message i but its role are marked with source i
  ChatTemplate::Variables others;      // tools (marked with kOutsideSource) and template_variables
};
TemplateInput MakeTemplateInput(const Conversation& conversation, const TemplateDialect& dialect);

// messages [0, count) rendered.
absl::StatusOr<jinja::Rendered> RenderInput(const ChatTemplate& chat_template, const TemplateInput& input, size_t count,
                                            bool add_generation_prompt, std::timespec now = {});

// The same, with what the generation prompt is (jinja::Template::RenderAtPrompt).
absl::StatusOr<jinja::PromptRendering> RenderInputAtPrompt(const ChatTemplate& chat_template,
                                                           const TemplateInput& input, size_t count,
                                                           bool add_generation_prompt);

// Renders a conversation with a tool call in each way, and takes the first in which the call shows.
TemplateDialect ProbeDialect(const ChatTemplate& chat_template);

// What ProbeDialect renders: a user's message, and an answer that calls probe_call with {"probe_key": "probe_value"}.
Conversation ProbeConversation();

}  // namespace ingot::text
