// Finds messages in a rendered conversation, and the part of each that an assistant would have sampled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/marked_encoder.h"
#include "text/jinja/template.h"

namespace ingot::text {

// Bytes [begin, end).
struct Region {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Region&) const = default;
};

// The region that the template's loop over the messages wrote for each message. All nullopt: the regions are not in the
// order of the messages. REQUIRES: messages are tracked in their order (RenderInput).
std::vector<std::optional<Region>> MessageRegions(const jinja::RenderedText& rendered, size_t messages);

// The end of each message: the place where the loop begins the next message; `end` for the last. nullopt: the template
// does not loop over the messages.
std::optional<std::vector<size_t>> MessageEnds(const jinja::RenderedText& rendered, size_t messages, size_t end);

// The token that closes a turn within `region`: the last token of `eos`, or else the last special token. nullopt: none.
std::optional<MarkedEncoder::TemplateToken> ClosingToken(const MarkedEncoder& encoder,
                                                         const jinja::RenderedText& rendered, const Region& region,
                                                         const std::vector<int32_t>& eos);

// The token of the template that begins at `at`; nullopt: no such token.
std::optional<MarkedEncoder::TemplateToken> TokenAt(const MarkedEncoder& encoder, const jinja::RenderedText& rendered,
                                                    size_t at);

// The sampled part of an assistant's message, whose region is `region`: the text of {% generation %} blocks, if the
// template has such blocks. Otherwise it begins after the prefix that the message shares with the generation prompt,
// and ends after the closing token.
Region SampledRegion(const MarkedEncoder& encoder, const jinja::RenderedText& rendered, const Region& region,
                     size_t message, std::string_view generation_prompt, const std::vector<int32_t>& eos);

// Cuts the text after the content of the last message, `message`: after its last place in `region`, including the white
// space at its end that the template keeps. Returns the content's place. nullopt: the template does not write it.
std::optional<Region> CutAfterContent(size_t message, std::string_view content, const Region& region,
                                      jinja::RenderedText& rendered);

// Bytes of the longest common prefix.
size_t CommonPrefix(std::string_view a, std::string_view b);
// The same for the texts, cut where marks or {% generation %} blocks differ.
size_t CommonBeginning(const jinja::RenderedText& a, const jinja::RenderedText& b);

}  // namespace ingot::text
