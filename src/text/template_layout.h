// Where the messages are in a rendered conversation, and what of them an assistant would have sampled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/template.h"
#include "text/marked_encoder.h"

namespace ingot::text {

// Bytes [begin, end).
struct Region {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Region&) const = default;
};

// What the template's loop over the messages wrote for each; nullopt: nothing, or in no order. Messages are tracked in
// their order (RenderInput).
std::vector<std::optional<Region>> MessageRegions(const jinja::Rendered& rendered, size_t messages);

// Where each message ends: where the loop begins with the next one; the last at `end`. nullopt: the template does not
// loop over the messages.
std::optional<std::vector<size_t>> MessageEnds(const jinja::Rendered& rendered, size_t messages, size_t end);

// The token that closes a turn within `region` of the text: the last one of `eos`, or else the last special one.
std::optional<MarkedEncoder::Written> ClosingToken(const MarkedEncoder& encoder, const jinja::Rendered& rendered,
                                                   const Region& region, const std::vector<int32_t>& eos);

// The token that the template wrote at `at`, if one begins there.
std::optional<MarkedEncoder::Written> TokenAt(const MarkedEncoder& encoder, const jinja::Rendered& rendered, size_t at);

// What of an assistant's message (its region, and its number) is sampled: what {% generation %} says, or else from
// behind the generation prompt, as far as the message begins as it does, to behind the closing token.
Region SampledRegion(const MarkedEncoder& encoder, const jinja::Rendered& rendered, const Region& region,
                     size_t message, std::string_view generation_prompt, const std::vector<int32_t>& eos);

size_t CommonPrefix(std::string_view a, std::string_view b);
// As far as the marks, and what {% generation %} blocks wrote, are the same too.
size_t CommonBeginning(const jinja::Rendered& a, const jinja::Rendered& b);

}  // namespace ingot::text
