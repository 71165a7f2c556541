#include "text/tokenizer/pipeline_tokenizer.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

// Returns true if `text` is only whitespace or SentencePiece's sign for a space (U+2581).
bool IsWhiteSpaceOnly(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeAt(text, at);
    if (c.value != 0x2581 && !(Unicode().FlagsOf(c.value) & kSpace)) return false;
    at += c.size;
  }
  return true;
}

class ModelSink final : public PieceSink {
 public:
  ModelSink(const Bpe& model, std::vector<int32_t>& ids) : model_(model), ids_(ids) {}
  void Accept(const Piece& piece) override { model_.Encode(piece.text, ids_); }

 private:
  const Bpe& model_;
  std::vector<int32_t>& ids_;
};

}  // namespace

PipelineTokenizer::PipelineTokenizer(PipelineParts parts)
    : parts_(std::move(parts)), all_(MakeMatchers(false)), white_space_(MakeMatchers(true)), bound_(MakeBound()) {
  for (const AddedTokenSpec& token : parts_.added) {
    by_text_[token.content] = &token;
    begins_[static_cast<unsigned char>(token.content.front())] = true;
    by_id_[token.id] = &token;
  }
}

PipelineTokenizer::Matchers PipelineTokenizer::MakeMatchers(bool only_white_space) const {
  std::vector<AddedTokenMatcher::Entry> raw;
  std::vector<AddedTokenMatcher::Entry> normalized;
  for (const AddedTokenSpec& token : parts_.added) {
    if (only_white_space && !IsWhiteSpaceOnly(token.content)) continue;
    if (!token.normalized) {
      raw.push_back({token.content, &token});
      continue;
    }
    std::string text = RunNormalizers(parts_.normalizer, token.content);
    if (!text.empty()) normalized.push_back({std::move(text), &token});
  }
  return {AddedTokenMatcher(raw), AddedTokenMatcher(normalized)};
}

IdBound PipelineTokenizer::MakeBound() const {
  size_t longest = parts_.model->longest();
  if (longest == 0) return {};
  std::vector<Shrinkage> steps;
  for (const auto& stage : parts_.normalizer.stages) steps.push_back(stage->shrinkage());
  for (const auto& stage : parts_.pre_tokenizer.stages) steps.push_back(stage->shrinkage());
  Shrinkage shrinkage = Joined(steps);
  for (const AddedTokenSpec& token : parts_.added) {
    const std::string normal = RunNormalizers(parts_.normalizer, token.content);
    longest = std::max({longest, token.content.size(), normal.size()});
    shrinkage.drops_spaces = shrinkage.drops_spaces || token.lstrip || token.rstrip;
  }
  return IdBound(longest, shrinkage);
}

std::vector<int32_t> PipelineTokenizer::Encode(std::string_view text, bool allow_special) const {
  std::string valid;
  if (!IsValidUtf8(text)) {
    valid = ToUtf8(text);
    text = valid;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  const Matchers& matchers = allow_special ? all_ : white_space_;
  if (matchers.raw.empty()) {
    EncodeRest(text, true, matchers, ids);
    return ids;
  }
  for (const auto& part : matchers.raw.Find(text)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
    } else {
      EncodeRest(text.substr(part.begin, part.end - part.begin), part.begin == 0, matchers, ids);
    }
  }
  return ids;
}

void PipelineTokenizer::EncodeRest(std::string_view text, bool starts_text, const Matchers& matchers,
                                   std::vector<int32_t>& ids) const {
  std::string normalized;
  if (!parts_.normalizer.stages.empty()) {
    bool keeps_start = true;
    normalized = RunNormalizers(parts_.normalizer, std::string(text), &keeps_start);
    starts_text = starts_text && keeps_start;
    text = normalized;
  }
  ModelSink sink(*parts_.model, ids);
  if (matchers.normalized.empty()) return RunStages(parts_.pre_tokenizer, {text, starts_text}, sink);
  for (const auto& part : matchers.normalized.Find(text)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
    } else {
      const Piece piece{text.substr(part.begin, part.end - part.begin), starts_text && part.begin == 0};
      RunStages(parts_.pre_tokenizer, piece, sink);
    }
  }
}

std::vector<int32_t> PipelineTokenizer::AddSpecial(std::vector<int32_t> ids) const {
  return parts_.post_processor.Apply(std::move(ids));
}

std::string PipelineTokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  return parts_.decoder.Decode(ids, skip_special);
}

std::string PipelineTokenizer::DecodeText(std::span<const int32_t> ids, bool skip_special) const {
  return parts_.decoder.DecodeText(ids, skip_special);
}

void PipelineTokenizer::DecodeNext(int32_t id, bool skip_special, DecodeState& state, std::string& out) const {
  parts_.decoder.Next(id, skip_special, state, out);
}

std::optional<int32_t> PipelineTokenizer::SpecialId(std::string_view text) const {
  if (text.empty() || !begins_[static_cast<unsigned char>(text.front())]) return std::nullopt;
  const auto found = by_text_.find(text);
  if (found == by_text_.end()) return std::nullopt;
  return found->second->id;
}

bool PipelineTokenizer::IsSpecial(int32_t id) const {
  if (by_id_.empty() || id < by_id_.begin()->first || id > by_id_.rbegin()->first) return false;
  const auto found = by_id_.find(id);
  return found != by_id_.end() && found->second->special;
}

}  // namespace ingot::text
