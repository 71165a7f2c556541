#include "text/tokenizer/alphabet_tokenizer.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/utf8.h"

namespace ingot::text {
namespace {

std::string FingerprintOf(const std::array<int32_t, 256>& byte_ids, std::vector<AddedToken> added) {
  std::sort(added.begin(), added.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  std::string definition = "byte-alphabet";
  for (const int32_t id : byte_ids) absl::StrAppend(&definition, " ", id);
  for (const AddedToken& token : added) {
    absl::StrAppend(&definition, "\n", token.id, token.special ? " special " : " added ", token.text.size(), " ",
                    token.text);
  }
  return base::Hex(base::ContentKey(definition));
}

}  // namespace

AlphabetTokenizer::AlphabetTokenizer(const std::array<int32_t, 256>& byte_ids, std::vector<AddedToken> added)
    : byte_ids_(byte_ids), added_(std::move(added)) {
  fingerprint_ = FingerprintOf(byte_ids_, added_);
  std::stable_sort(added_.begin(), added_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.text.size() > b.text.size(); });
  bound_ = IdBound(added_.empty() ? 1 : added_.front().text.size(), {});
  int32_t largest = *std::max_element(byte_ids_.begin(), byte_ids_.end());
  for (const AddedToken& token : added_) largest = std::max(largest, token.id);
  vocab_size_ = largest + 1;
  byte_by_id_.assign(vocab_size_, -1);
  for (int byte = 0; byte < 256; ++byte) byte_by_id_[byte_ids_[byte]] = static_cast<int16_t>(byte);
  for (size_t i = 0; i < added_.size(); ++i) {
    by_first_byte_[static_cast<uint8_t>(added_[i].text[0])].push_back(static_cast<int32_t>(i));
    added_by_id_.emplace(added_[i].id, static_cast<int32_t>(i));
  }
}

const AddedToken* AlphabetTokenizer::MatchAt(std::string_view text, size_t at) const {
  for (const int32_t index : by_first_byte_[static_cast<uint8_t>(text[at])]) {
    const AddedToken& token = added_[index];
    if (text.substr(at, token.text.size()) == token.text) return &token;
  }
  return nullptr;
}

std::vector<int32_t> AlphabetTokenizer::Encode(std::string_view text, bool allow_special) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token = allow_special ? MatchAt(text, at) : nullptr;
    if (token != nullptr) {
      ids.push_back(token->id);
      at += token->text.size();
    } else {
      ids.push_back(byte_ids_[static_cast<uint8_t>(text[at])]);
      ++at;
    }
  }
  return ids;
}

std::string AlphabetTokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  out.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size_) continue;
    if (byte_by_id_[id] >= 0) {
      out += static_cast<char>(byte_by_id_[id]);
      continue;
    }
    const auto found = added_by_id_.find(id);
    if (found == added_by_id_.end()) continue;
    const AddedToken& token = added_[found->second];
    if (!(token.special && skip_special)) out += token.text;
  }
  return out;
}

std::optional<int32_t> AlphabetTokenizer::SpecialId(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const AddedToken* token = MatchAt(text, 0);
  if (token == nullptr || token->text.size() != text.size()) return std::nullopt;
  return token->id;
}

bool AlphabetTokenizer::IsSpecial(int32_t id) const {
  const auto found = added_by_id_.find(id);
  return found != added_by_id_.end() && added_[found->second].special;
}

const std::array<std::string, 256>& ByteSpelling() {
  static const auto* const spelling = [] {
    auto* table = new std::array<std::string, 256>();
    uint32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const uint32_t code = printable ? byte : next++;
      base::AppendUtf8(code, (*table)[byte]);
    }
    return table;
  }();
  return *spelling;
}

std::shared_ptr<const Tokenizer> MakeByteTokenizer(const std::vector<std::string>& special_tokens) {
  std::array<int32_t, 256> byte_ids;
  for (int byte = 0; byte < 256; ++byte) byte_ids[byte] = byte;
  std::vector<AddedToken> added;
  added.reserve(special_tokens.size());
  for (const std::string& text : special_tokens)
    added.push_back({text, 256 + static_cast<int32_t>(added.size()), true});
  return std::make_shared<AlphabetTokenizer>(byte_ids, std::move(added));
}

}  // namespace ingot::text
