#include "text/chat/marked_encoder.h"

#include <algorithm>

namespace ingot::text {
namespace {

using jinja::Mark;

// Returns the marks within text[begin, end), with offsets from `begin`.
std::vector<Mark> Clipped(std::span<const Mark> marks, size_t begin, size_t end) {
  std::vector<Mark> clipped;
  const auto first = std::partition_point(marks.begin(), marks.end(), [&](const Mark& m) { return m.end <= begin; });
  for (auto mark = first; mark != marks.end() && mark->begin < end; ++mark) {
    clipped.push_back({std::max(mark->begin, begin) - begin, std::min(mark->end, end) - begin, mark->source});
  }
  return clipped;
}

bool IsSpaceOnly(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

}  // namespace

MarkedEncoder::MarkedEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view template_source)
    : tokenizer_(std::move(tokenizer)) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string text = tokenizer_->Decode(std::span(&id, 1), false);
    if (text.empty() || tokenizer_->SpecialId(text) != id) continue;
    added_.push_back({.content = text, .id = id, .special = tokenizer_->IsSpecial(id), .normalized = false});
  }
  std::vector<AddedTokenMatcher::Entry> all, harmless;
  for (const AddedTokenSpec& token : added_) {
    all.push_back({token.content, &token});
    const bool written = template_source.find(token.content) != template_source.npos && !IsSpaceOnly(token.content);
    if (!token.special && !written) harmless.push_back({token.content, &token});
  }
  all_ = std::make_unique<const AddedTokenMatcher>(all);
  harmless_ = std::make_unique<const AddedTokenMatcher>(harmless);
  newline_ = tokenizer_->Encode("\n", false);
  std::vector<int32_t> joined = newline_;
  const std::vector<int32_t> letter = tokenizer_->Encode("a", false);
  joined.insert(joined.end(), letter.begin(), letter.end());
  start_matters_ = tokenizer_->Encode("\na", false) != joined;
}

std::vector<MarkedEncoder::TemplateToken> MarkedEncoder::Tokens(std::string_view text,
                                                                std::span<const Mark> marks) const {
  std::vector<TemplateToken> tokens;
  const auto find = [&](const AddedTokenMatcher& matcher, size_t begin, size_t end) {
    if (begin >= end || matcher.empty()) return;
    for (const auto& part : matcher.Find(text.substr(begin, end - begin))) {
      if (part.token != nullptr) tokens.push_back({begin + part.begin, begin + part.end, part.token->id});
    }
  };
  size_t at = 0;
  for (size_t i = 0; i < marks.size(); ++i) {
    find(*all_, at, marks[i].begin);
    // Adjacent marks count as one untrusted string.
    const size_t begin = marks[i].begin;
    while (i + 1 < marks.size() && marks[i + 1].begin == marks[i].end) ++i;
    find(*harmless_, begin, marks[i].end);
    at = marks[i].end;
  }
  find(*all_, at, text.size());
  return tokens;
}

MarkedEncoder::Encoding MarkedEncoder::Encode(std::string_view text, std::span<const Mark> marks,
                                              std::span<const size_t> cuts, Encoding encoded_prefix) const {
  Encoding out = std::move(encoded_prefix);
  const size_t known = out.at_cuts.size();
  size_t at = known == 0 ? 0 : cuts[known - 1];
  const auto piece = [&](size_t end) {
    if (end <= at) return;
    // A piece starts in the middle of text, unless a token comes right before it.
    const bool after_token =
        !out.ids.empty() && tokenizer_->SpecialId(tokenizer_->TokenBytes(out.ids.back())) == out.ids.back();
    EncodePiece(text.substr(at, end - at), Clipped(marks, at, end), at > 0 && !after_token, out.ids);
    at = end;
  };
  for (const size_t cut : cuts.subspan(known)) {
    piece(cut);
    out.at_cuts.push_back(out.ids.size());
  }
  piece(text.size());
  return out;
}

void MarkedEncoder::EncodePiece(std::string_view text, std::span<const Mark> marks, bool mid_text,
                                std::vector<int32_t>& ids) const {
  const std::vector<TemplateToken> tokens = Tokens(text, marks);
  // Forged places: Tokens() does not find a token there, but a search of the whole text does.
  std::vector<std::pair<size_t, size_t>> forged;
  size_t next = 0;
  for (const auto& part : all_->Find(text)) {
    if (part.token == nullptr) continue;
    while (next < tokens.size() && tokens[next].begin < part.begin) ++next;
    const bool same = next < tokens.size() && tokens[next].begin == part.begin && tokens[next].end == part.end;
    if (!same && !IsSpaceOnly(part.token->content)) forged.emplace_back(part.begin, part.end);
  }
  if (forged.empty()) return Append(text, true, mid_text, ids);
  // Encodes a stretch between two tokens that contains a forged place without added tokens, and all other text with
  // them.
  size_t done = 0;
  for (const auto& [begin, end] : forged) {
    if (begin < done) continue;
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): not called if there are no tokens
    const auto after =
        std::find_if(tokens.begin(), tokens.end(), [&](const TemplateToken& t) { return t.end > begin; });
    const size_t from = std::max(done, after == tokens.begin() ? size_t{0} : std::prev(after)->end);
    const size_t to = after == tokens.end() ? text.size() : std::max(after->begin, from);
    Append(text.substr(done, from - done), true, mid_text && done == 0, ids);
    Append(text.substr(from, to - from), false, mid_text && from == 0, ids);
    done = to;
  }
  Append(text.substr(done), true, false, ids);
}

void MarkedEncoder::Append(std::string_view text, bool allow_special, bool mid_text, std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  if (mid_text && start_matters_) {
    // Encodes the text after a newline, so that it is in the middle of text, and removes the newline's ids.
    std::vector<int32_t> more;
    cache_.Encode(*tokenizer_, "\n" + std::string(text), allow_special, more);
    if (more.size() >= newline_.size() && std::equal(newline_.begin(), newline_.end(), more.begin())) {
      ids.insert(ids.end(), more.begin() + static_cast<std::ptrdiff_t>(newline_.size()), more.end());
      return;
    }
  }
  cache_.Encode(*tokenizer_, text, allow_special, ids);
}

}  // namespace ingot::text
