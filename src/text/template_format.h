// ChatFormat on a model's own chat template (LoadChatFormat in chat.h).
//
// Splicing (RenderTail). The template is asked twice: A is the conversation up to the sampled turn, W all of it with
// the generation prompt. The turn's closing token is found in A; the tail is what W has behind it. That is a
// continuation of what was sampled exactly if W begins with A up to there, and A with the generation prompt that the
// turn was sampled from; where it does not, the template has rewritten history, and kAsTemplate says so. What was
// sampled is not compared with A: the caller's message is what it says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/chat.h"
#include "text/chat_template.h"
#include "text/marked_encoder.h"
#include "text/output_format.h"
#include "text/template_messages.h"

namespace ingot::text {

// Turns end with the template's eos token, those of generation_config.json,
// and, if the template writes neither behind an answer, with what it writes.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeTemplateFormat(std::shared_ptr<const ChatTemplate> chat_template,
                                                                     std::shared_ptr<const MarkedEncoder> encoder,
                                                                     const OutputFormat* output);

// The output format whose calls the template writes: the first that reads back the call of a conversation rendered with
// one; "plain" for a template that writes no calls. NOT_FOUND: none reads them; name one.
absl::StatusOr<const OutputFormat*> DetectOutputFormat(const ChatTemplate& chat_template, const MarkedEncoder& encoder);

}  // namespace ingot::text
