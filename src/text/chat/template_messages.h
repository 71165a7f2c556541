// Converts a conversation to chat template variables.
#pragma once

#include <memory>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/chat_template.h"

namespace ingot::text {

// The ways in which templates differ. ProbeDialect determines them by rendering.
struct TemplateDialect {
  // The content of an assistant message that has only tool calls.
  enum class NoContent { kEmpty, kNull, kAbsent };
  NoContent no_content = NoContent::kEmpty;
  // True = tool_calls[].function.arguments is a JSON string, for templates that concatenate strings. False = it is an
  // object, as Hugging Face documents. Arguments that are not a JSON object are always passed as a string.
  bool arguments_as_text = false;
  // True = call ids must be nine letters or digits (Mistral). Any other id is replaced with nine characters of its
  // hash.
  bool short_ids = false;

  bool operator==(const TemplateDialect&) const = default;
};

// Template variables for one conversation, which can be rendered several times. Calls and their results use the ids
// that the model wrote, if any (ToolCall::written_id).
struct TemplateInput {
  std::vector<jinja::Value> messages;  // dicts; all strings in message i except its role are marked with source i
  ChatTemplate::Variables others;      // tools (marked with kOutsideSource) and template_variables
};
TemplateInput MakeTemplateInput(const Conversation& conversation, const TemplateDialect& dialect);

// Renders messages [0, count).
absl::StatusOr<jinja::RenderedText> RenderInput(const ChatTemplate& chat_template, const TemplateInput& input,
                                                size_t count, bool add_generation_prompt, std::timespec now = {});

// Same as RenderInput, but also finds the generation prompt (jinja::Template::RenderAtPrompt).
absl::StatusOr<jinja::PromptRendering> RenderInputAtPrompt(const ChatTemplate& chat_template,
                                                           const TemplateInput& input, size_t count,
                                                           bool add_generation_prompt);

// Renders ProbeConversation in each dialect and returns the first one whose text contains the call.
TemplateDialect ProbeDialect(const ChatTemplate& chat_template);

// Returns a user message followed by an answer that calls probe_call with {"probe_key": "probe_value"}.
Conversation ProbeConversation();

}  // namespace ingot::text
