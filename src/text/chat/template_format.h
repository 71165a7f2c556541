// Implements ChatFormat with a model's own chat template (LoadChatFormat in chat.h).
//
// RenderTail works as follows.
//
//   W   the template's text for the entire conversation
//   P   the prompt from which the turn was sampled: the prefix of W that TailOptions::sampled_from identifies, or else
//       the text that the template renders for it now
//   A   the template's text for the conversation up to and including the turn, rendered as the last message
//
// 1. If W begins with P and continues with the turn byte for byte, the tail is the remaining part of W.
// 2. The template may render the turn differently (reformatted arguments, whitespace). Then W must begin with A, and
//    must have reasoning marks exactly where reasoning was sampled (template_turn.h). Empty reasoning that occurs only
//    in A is accepted, because Qwen 3's template writes empty reasoning only in the last message.
// 3. Otherwise the template has rewritten history, and RenderTail fails with EarlierTurns::kAsTemplate.
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

// The ids that end turns are the template's eos token, the eos ids in the model's configuration files, and, if the
// template writes none of them after an answer, the special token that it writes there. Returns INVALID_ARGUMENT if no
// token ends a turn.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeTemplateFormat(std::shared_ptr<const ChatTemplate> chat_template,
                                                                     std::shared_ptr<const MarkedEncoder> encoder,
                                                                     const OutputFormat* output);

// Returns the output format whose calls the template writes: the first format that can parse a call in a test
// rendering. Returns "plain" for a template that writes no calls. Returns NOT_FOUND if no known format can parse the
// calls, in which case the format must be configured.
absl::StatusOr<const OutputFormat*> DetectOutputFormat(const ChatTemplate& chat_template, const MarkedEncoder& encoder);

}  // namespace ingot::text
