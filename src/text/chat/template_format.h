// ChatFormat on a model's own chat template (LoadChatFormat in chat.h).
//
// RenderTail splices as follows.
//
//   W   the template's text of the whole conversation
//   P   the prompt that the turn was sampled from: the prefix of W that TailOptions::sampled_from names, or else the
//       text that the template now writes for it
//   A   the template's text of the conversation up to the turn, itself included, when it was the last message
//
// 1. If W begins with P and continues with the turn, byte for byte, the tail is the rest of W.
// 2. The template may write the turn differently (arguments printed anew, white space). Then W must begin with A, and
//    must have a thought's marks exactly where a thought was sampled (template_turn.h). An empty thought only in A is
//    accepted: Qwen 3's template writes an empty thought only in the last message.
// 3. Otherwise the template has rewritten history, and RenderTail fails under EarlierTurns::kAsTemplate.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/chat_template.h"
#include "text/chat/marked_encoder.h"
#include "text/chat/template_messages.h"
#include "text/output/output_format.h"

namespace ingot::text {

// These ids end turns: the template's eos token, the eos ids of the model's configurations and, if the template does
// not write any of them after an answer, the special token that it writes there. INVALID_ARGUMENT: no token ends a
// turn.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeTemplateFormat(std::shared_ptr<const ChatTemplate> chat_template,
                                                                     std::shared_ptr<const MarkedEncoder> encoder,
                                                                     const OutputFormat* output);

// The output format whose calls the template writes: the first format that reads back the call of a rendered probe.
// "plain" for a template that writes no calls. NOT_FOUND: no known format reads them, so the caller must name the
// format.
absl::StatusOr<const OutputFormat*> DetectOutputFormat(const ChatTemplate& chat_template, const MarkedEncoder& encoder);

}  // namespace ingot::text
