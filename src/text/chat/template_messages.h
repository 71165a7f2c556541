// A conversation as the variables of a chat template.
#pragma once

#include <memory>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/chat_template.h"

namespace ingot::text {

// The choices on which templates disagree. ProbeDialect finds them by rendering.
struct TemplateDialect {
  // The content of an assistant message that has only tool calls.
  enum class NoContent { kEmpty, kNull, kAbsent };
  NoContent no_content = NoContent::kEmpty;
  // tool_calls[].function.arguments is JSON text, for templates that join texts. False: it is an object, as Hugging
  // Face documents. Text that is not a JSON object is always passed as text.
  bool arguments_as_text = false;
  // Ids of calls must be nine letters or digits (Mistral): any other id is shown as nine characters of its hash.
  bool short_ids = false;

  bool operator==(const TemplateDialect&) const = default;
};

// The template's variables for one conversation, which may be rendered several times. Calls and their results carry the
// ids that the model wrote, if any (ToolCall::written_id).
struct TemplateInput {
  std::vector<jinja::Value> messages;  // dicts; the texts of message i, except its role, are marked with source i
  ChatTemplate::Variables others;      // tools (marked with kOutsideSource) and template_variables
};
TemplateInput MakeTemplateInput(const Conversation& conversation, const TemplateDialect& dialect);

// Renders messages [0, count).
absl::StatusOr<jinja::RenderedText> RenderInput(const ChatTemplate& chat_template, const TemplateInput& input,
                                                size_t count, bool add_generation_prompt, std::timespec now = {});

// The same, and finds the generation prompt (jinja::Template::RenderAtPrompt).
absl::StatusOr<jinja::PromptRendering> RenderInputAtPrompt(const ChatTemplate& chat_template,
                                                           const TemplateInput& input, size_t count,
                                                           bool add_generation_prompt);

// Renders ProbeConversation in each dialect, and returns the first dialect that shows the call.
TemplateDialect ProbeDialect(const ChatTemplate& chat_template);

// A user's message, and an answer that calls probe_call with {"probe_key": "probe_value"}.
Conversation ProbeConversation();

}  // namespace ingot::text
