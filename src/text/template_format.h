// ChatFormat on a model's own chat template (LoadChatFormat in chat.h).
//
// Splicing (RenderTail). The template is asked for W, all of the conversation. P, what the turn was sampled from, is
// the beginning of W that TailOptions::sampled_from names, or else what the template writes for it now. The template
// continues what was sampled if W begins with P and goes on as the turn does, byte for byte; the tail is the rest of W.
// A turn that W writes in another way (arguments printed anew, white space) is compared with A, the conversation up to
// its end, as the template wrote it before more followed: W must begin with that, and have the marks of a thought where
// one was sampled and nowhere else (template_turn.h). That A may have an empty thought more does not count: Qwen 3's
// template gives one to the last message and no other. Where nothing fits, the template has rewritten history, and
// kAsTemplate says so.
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
