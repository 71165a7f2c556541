// Finds the messages in a rendered conversation, and the part of each message that an assistant would have sampled.
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

// Returns the region that the template's loop wrote for each message. All are nullopt if the regions are not in message
// order. REQUIRES: messages are tracked in order (RenderInput).
std::vector<std::optional<Region>> MessageRegions(const jinja::RenderedText& rendered, size_t messages);

// Returns the end of each message, which is where the loop starts the next message, or `end` for the last one. Returns
// nullopt if the template does not loop over the messages.
std::optional<std::vector<size_t>> MessageEnds(const jinja::RenderedText& rendered, size_t messages, size_t end);

// Returns the token that closes a turn within `region`: the last token in `eos`, or else the last special token.
// Returns nullopt if there is none.
std::optional<MarkedEncoder::TemplateToken> ClosingToken(const MarkedEncoder& encoder,
                                                         const jinja::RenderedText& rendered, const Region& region,
                                                         const std::vector<int32_t>& eos);

// Returns the template's token that begins at `at`, or nullopt if there is none.
std::optional<MarkedEncoder::TemplateToken> TokenAt(const MarkedEncoder& encoder, const jinja::RenderedText& rendered,
                                                    size_t at);

// Returns the sampled part of the assistant message in `region`. If the template has {% generation %} blocks, this is
// their text. Otherwise it begins after the prefix shared with the generation prompt and ends after the closing token.
Region SampledRegion(const MarkedEncoder& encoder, const jinja::RenderedText& rendered, const Region& region,
                     size_t message, std::string_view generation_prompt, const std::vector<int32_t>& eos);

// Truncates the text after the last occurrence of the last message's content in `region`, keeping the content's
// trailing whitespace if the template does. Returns the content's position, or nullopt if the template does not write
// the content.
std::optional<Region> CutAfterContent(size_t message, std::string_view content, const Region& region,
                                      jinja::RenderedText& rendered);

// Returns the length of the longest common prefix in bytes.
size_t CommonPrefix(std::string_view a, std::string_view b);
// Same as CommonPrefix, but for rendered text. The prefix also ends where marks or {% generation %} blocks differ.
size_t CommonBeginning(const jinja::RenderedText& a, const jinja::RenderedText& b);

}  // namespace ingot::text
