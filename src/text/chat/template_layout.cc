#include "text/chat/template_layout.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace ingot::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::vector<MarkedEncoder::TemplateToken> TokensIn(const MarkedEncoder& encoder, const jinja::RenderedText& rendered,
                                                   const Region& region) {
  std::vector<jinja::Mark> marks;
  for (const jinja::Mark& mark : rendered.marks) {
    if (mark.end <= region.begin || mark.begin >= region.end) continue;
    marks.push_back({std::max(mark.begin, region.begin) - region.begin, std::min(mark.end, region.end) - region.begin,
                     mark.source});
  }
  const std::string_view text = std::string_view(rendered.text).substr(region.begin, region.end - region.begin);
  std::vector<MarkedEncoder::TemplateToken> tokens = encoder.Tokens(text, marks);
  for (auto& token : tokens) {
    token.begin += region.begin;
    token.end += region.begin;
  }
  return tokens;
}

// Returns where the generation prompt may be cut, after a token or a line, within the `common` bytes that it shares
// with the message.
size_t CutBefore(const MarkedEncoder& encoder, std::string_view prompt, size_t common) {
  if (common == prompt.size()) return common;
  size_t cut = 0;
  for (const auto& token : encoder.Tokens(prompt, {})) {
    if (token.end <= common) cut = std::max(cut, token.end);
    if (token.begin < common && common < token.end) common = token.begin;  // in the middle of a token
  }
  const size_t line = prompt.substr(0, common).rfind('\n');
  if (line != prompt.npos) cut = std::max(cut, line + 1);
  return cut;
}

}  // namespace

size_t CommonPrefix(std::string_view a, std::string_view b) {
  constexpr size_t kBlock = 4096;  // strings share long prefixes, so memcmp is faster than a byte loop
  size_t at = 0;
  while (std::min(a.size(), b.size()) - at >= kBlock && std::memcmp(a.data() + at, b.data() + at, kBlock) == 0) {
    at += kBlock;
  }
  const std::string_view rest = a.substr(at), other = b.substr(at);
  return at +
         static_cast<size_t>(std::mismatch(rest.begin(), rest.end(), other.begin(), other.end()).first - rest.begin());
}

size_t CommonBeginning(const jinja::RenderedText& a, const jinja::RenderedText& b) {
  size_t same = CommonPrefix(a.text, b.text);
  const auto part = std::mismatch(a.marks.begin(), a.marks.end(), b.marks.begin(), b.marks.end());
  if (part.first != a.marks.end()) same = std::min(same, part.first->begin);
  if (part.second != b.marks.end()) same = std::min(same, part.second->begin);
  const auto [in_a, in_b] =
      std::mismatch(a.generations.begin(), a.generations.end(), b.generations.begin(), b.generations.end());
  if (in_a != a.generations.end()) same = std::min(same, in_a->first);
  if (in_b != b.generations.end()) same = std::min(same, in_b->first);
  return same;
}

std::vector<std::optional<Region>> MessageRegions(const jinja::RenderedText& rendered, size_t messages) {
  std::vector<std::optional<Region>> regions(messages);
  for (const auto& pass : rendered.passes) {
    auto& region = regions[pass.index];
    if (!region || pass.end - pass.begin > region->end - region->begin) region = Region{pass.begin, pass.end};
  }
  size_t done = 0;
  for (auto& region : regions) {
    if (!region) continue;
    if (region->begin < done) return std::vector<std::optional<Region>>(messages);
    done = region->end;
  }
  return regions;
}

std::optional<std::vector<size_t>> MessageEnds(const jinja::RenderedText& rendered, size_t messages, size_t end) {
  const auto regions = MessageRegions(rendered, messages);
  if (std::none_of(regions.begin(), regions.end(), [](const auto& region) { return region.has_value(); })) {
    return std::nullopt;
  }
  std::vector<size_t> ends(messages, end);
  size_t next = end;
  for (size_t i = messages; i-- > 0;) {
    ends[i] = std::min(end, next);
    if (regions[i]) {
      // A message for which the loop wrote nothing is empty. It ends where the previous message ends.
      next = regions[i]->begin;
    }
  }
  return ends;
}

std::optional<MarkedEncoder::TemplateToken> ClosingToken(const MarkedEncoder& encoder,
                                                         const jinja::RenderedText& rendered, const Region& region,
                                                         const std::vector<int32_t>& eos) {
  std::optional<MarkedEncoder::TemplateToken> closing, special;
  for (const auto& token : TokensIn(encoder, rendered, region)) {
    if (std::find(eos.begin(), eos.end(), token.id) != eos.end()) closing = token;
    if (encoder.tokenizer().IsSpecial(token.id)) special = token;
  }
  return closing ? closing : special;
}

std::optional<MarkedEncoder::TemplateToken> TokenAt(const MarkedEncoder& encoder, const jinja::RenderedText& rendered,
                                                    size_t at) {
  constexpr size_t kLongest = 256;  // bytes of a token
  const auto tokens = TokensIn(encoder, rendered, {at, base::StartOf(rendered.text, at + kLongest)});
  if (tokens.empty() || tokens.front().begin != at) return std::nullopt;
  return tokens.front();
}

std::optional<Region> CutAfterContent(size_t message, std::string_view content, const Region& region,
                                      jinja::RenderedText& rendered) {
  const auto is_own = [&](size_t at) {  // whether the byte at `at` belongs to the message
    const auto mark = std::upper_bound(rendered.marks.begin(), rendered.marks.end(), at,
                                       [](size_t at, const jinja::Mark& mark) { return at < mark.end; });
    return mark != rendered.marks.end() && mark->begin <= at && mark->source == static_cast<int32_t>(message);
  };
  const size_t first = std::min(content.find_first_not_of(kSpace), content.size());
  const size_t last = content.find_last_not_of(kSpace) + 1;
  if (first >= last) return std::nullopt;
  const std::string_view said = content.substr(first, last - first), space = content.substr(last);
  const std::string_view text = std::string_view(rendered.text).substr(0, region.end);
  size_t begin = text.rfind(said);
  while (begin != text.npos && begin > region.begin && !(is_own(begin) && is_own(begin + said.size() - 1))) {
    begin = text.rfind(said, begin - 1);
  }
  if (begin == text.npos || begin < region.begin || !is_own(begin)) return std::nullopt;
  size_t end = begin + said.size();
  for (size_t i = 0; i < space.size() && end < text.size() && text[end] == space[i] && is_own(end); ++i) ++end;
  rendered.text.resize(end);
  std::erase_if(rendered.marks, [end](const jinja::Mark& mark) { return mark.begin >= end; });
  std::erase_if(rendered.passes, [end](const auto& pass) { return pass.begin >= end; });
  std::erase_if(rendered.generations, [end](const auto& block) { return block.first >= end; });
  for (jinja::Mark& mark : rendered.marks) mark.end = std::min(mark.end, end);
  for (auto& pass : rendered.passes) pass.end = std::min(pass.end, end);
  for (auto& block : rendered.generations) block.second = std::min(block.second, end);
  return Region{begin, end};
}

Region SampledRegion(const MarkedEncoder& encoder, const jinja::RenderedText& rendered, const Region& region,
                     size_t message, std::string_view generation_prompt, const std::vector<int32_t>& eos) {
  std::optional<Region> said;
  for (const auto& [begin, end] : rendered.generations) {
    if (begin < region.begin || end > region.end || begin == end) continue;
    said = Region{said ? said->begin : begin, end};
  }
  if (said) return *said;
  const std::string_view text = std::string_view(rendered.text).substr(region.begin, region.end - region.begin);
  size_t begin = region.begin + CutBefore(encoder, generation_prompt, CommonPrefix(generation_prompt, text));
  Region own{region.end, region.begin};  // the span of the message's own text
  for (const jinja::Mark& mark : rendered.marks) {
    if (mark.source != static_cast<int32_t>(message) || mark.begin < region.begin || mark.end > region.end) continue;
    own.begin = std::min(own.begin, mark.begin);
    own.end = mark.end;
  }
  begin = std::min(begin, own.begin);
  const auto closing = ClosingToken(encoder, rendered, {begin, region.end}, eos);
  // If no token closes the message (in GLM, the next message's first token does), all of it is sampled except
  // whitespace at its end.
  size_t end = closing ? closing->end : region.end;
  while (!closing && end > std::max(begin, own.end) && kSpace.find(rendered.text[end - 1]) != kSpace.npos) --end;
  return {begin, std::max(begin, end)};
}

}  // namespace ingot::text
