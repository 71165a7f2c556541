#include "text/tokenizer/tokenizer_json_model.h"

#include <set>

#include "text/tokenizer/alphabet_tokenizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

bool IsTrue(const json::value* value) { return value != nullptr && value->is_bool() && value->get_bool(); }

absl::Status CheckOptions(const json::value& model) {
  const json::value* type = Find(model, "type");
  if (type != nullptr && TypeOf(model) != "BPE") return UnsupportedComponent(absl::StrCat("model ", TypeOf(model)));
  const json::value* dropout = Find(model, "dropout");
  if (!IsNullOrMissing(dropout) && !(dropout->is_number() && dropout->to_number<double>() == 0)) {
    return UnsupportedComponent("model BPE with dropout");
  }
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json::value* value = Find(model, option);
    if (IsNullOrMissing(value) || (value->is_string() && value->get_string().empty())) continue;
    return UnsupportedComponent(absl::StrCat("model BPE with ", option));
  }
  return absl::OkStatus();
}

// Returns the two sides of a merge, written as "a b" or ["a", "b"].
absl::StatusOr<std::pair<std::string_view, std::string_view>> ReadSides(const json::value& merge, size_t rank) {
  if (merge.is_string()) {
    const std::string_view text(merge.get_string());
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
  } else if (merge.is_array() && merge.get_array().size() == 2) {
    const json::value& left = merge.get_array()[0];
    const json::value& right = merge.get_array()[1];
    if (left.is_string() && right.is_string()) {
      return std::pair(std::string_view(left.get_string()), std::string_view(right.get_string()));
    }
  }
  return MalformedComponent(absl::StrCat("merge ", rank, " must be \"left right\" or [\"left\", \"right\"]"));
}

absl::Status ReadMerges(const json::value& model, Vocabulary& vocabulary) {
  const json::value* merges = Find(model, "merges");
  if (merges == nullptr || !merges->is_array()) return MalformedComponent("model.merges must be an array");
  vocabulary.merges.reserve(merges->get_array().size());
  std::string joined;
  for (const json::value& merge : merges->get_array()) {
    if (merge.is_string() && std::string_view(merge.get_string()).substr(0, 8) == "#version") continue;
    const size_t rank = vocabulary.merges.size();
    INGOT_ASSIGN_OR_RETURN(const auto sides, ReadSides(merge, rank));
    joined.assign(sides.first);
    joined += sides.second;
    int32_t ids[3];
    const std::string_view texts[3] = {sides.first, sides.second, joined};
    for (int i = 0; i < 3; ++i) {
      const auto found = vocabulary.ids.find(texts[i]);
      if (texts[i].empty() || found == vocabulary.ids.end()) {
        return MalformedComponent(absl::StrCat("merge ", rank, " needs the token '", base::View(texts[i]),
                                               "', which is not in the vocabulary"));
      }
      ids[i] = found->second;
    }
    vocabulary.merges.push_back({ids[0], ids[1], ids[2]});
  }
  return absl::OkStatus();
}

// Returns the bytes of a byte-level token. Returns "" if a character spells no byte, because then no text can produce
// the token.
std::string SpelledBytes(std::string_view token) {
  static const auto* const bytes = [] {
    auto* map = new std::unordered_map<uint32_t, char>();
    for (int byte = 0; byte < 256; ++byte) (*map)[DecodeAt(ByteSpelling()[byte], 0).value] = static_cast<char>(byte);
    return map;
  }();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = DecodeAt(token, at);
    const auto found = bytes->find(c.value);
    if (found == bytes->end()) return "";
    out += found->second;
    at += c.size;
  }
  return out;
}

bool IsPlainByteLevel(const json::value* component) {
  return !IsNullOrMissing(component) && TypeOf(*component) == "ByteLevel";
}

}  // namespace

absl::StatusOr<int32_t> ReadTokenId(const json::value* id, std::string_view token) {
  if (id == nullptr || !id->is_int64() || id->get_int64() < 0 || id->get_int64() > kMaxTokenId) {
    return MalformedComponent(
        absl::StrCat("token '", base::View(token), "' needs an integer id from 0 to ", kMaxTokenId));
  }
  return static_cast<int32_t>(id->get_int64());
}

absl::StatusOr<Vocabulary> ReadVocabulary(const json::value& model) {
  INGOT_RETURN_IF_ERROR(CheckOptions(model));
  const json::value* vocab = Find(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return MalformedComponent("model.vocab must be an object");
  Vocabulary vocabulary;
  vocabulary.ids.reserve(vocab->get_object().size());
  for (const auto& entry : vocab->get_object()) {
    const std::string_view text(entry.key());
    INGOT_ASSIGN_OR_RETURN(const int32_t id, ReadTokenId(&entry.value(), text));
    vocabulary.ids.emplace(text, id);
  }
  INGOT_RETURN_IF_ERROR(ReadMerges(model, vocabulary));
  return vocabulary;
}

absl::StatusOr<BpeDefinition> ReadBpe(const json::value& model, const Vocabulary& vocabulary, bool bytes) {
  BpeDefinition definition;
  definition.bytes = bytes;
  definition.merges = vocabulary.merges;
  for (const auto& [field, option] :
       {std::pair{"ignore_merges", &definition.ignore_merges}, std::pair{"byte_fallback", &definition.byte_fallback},
        std::pair{"fuse_unk", &definition.fuse_unk}}) {
    INGOT_ASSIGN_OR_RETURN(*option, ReadBool(model, field, false, "model BPE"));
  }
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    const auto found = vocabulary.ids.find(std::string_view(name));
    definition.fallback_ids[byte] = found == vocabulary.ids.end() ? -1 : found->second;
  }
  const json::value* unk = Find(model, "unk_token");
  if (!IsNullOrMissing(unk)) {
    if (!unk->is_string()) return MalformedComponent("model.unk_token must be a string");
    const auto found = vocabulary.ids.find(std::string_view(unk->get_string()));
    if (found == vocabulary.ids.end()) {
      return MalformedComponent(
          absl::StrCat("model.unk_token '", std::string(unk->get_string()), "' is not in the vocabulary"));
    }
    definition.unk = found->second;
  }
  for (const auto& [text, id] : vocabulary.ids) {
    if (definition.tokens.size() <= static_cast<size_t>(id)) definition.tokens.resize(id + 1);
    definition.tokens[id] = bytes ? SpelledBytes(text) : std::string(text);
  }
  return definition;
}

std::shared_ptr<const Tokenizer> ReadAlphabetTokenizer(const json::value& root, const json::value& model,
                                                       const std::vector<AddedTokenSpec>& added) {
  const json::value* merges = Find(model, "merges");
  const json::value* vocab = Find(model, "vocab");
  const json::value* pre = Find(root, "pre_tokenizer");
  const json::value* post = Find(root, "post_processor");
  const bool plain = CheckOptions(model).ok() && IsNullOrMissing(Find(root, "normalizer")) && IsPlainByteLevel(pre) &&
                     IsPlainByteLevel(Find(root, "decoder")) && (IsNullOrMissing(post) || IsPlainByteLevel(post)) &&
                     !IsTrue(Find(model, "byte_fallback")) && !IsTrue(Find(model, "ignore_merges")) &&
                     merges != nullptr && merges->is_array() && merges->get_array().empty() && vocab != nullptr &&
                     vocab->is_object();
  if (!plain) return nullptr;
  const json::value* prefix = Find(*pre, "add_prefix_space");
  if (prefix == nullptr || !prefix->is_bool() || prefix->get_bool()) return nullptr;
  std::set<std::string, std::less<>> texts;
  std::set<int32_t> ids;
  std::vector<AddedToken> tokens;
  for (const AddedTokenSpec& token : added) {
    if (token.lstrip || token.rstrip || token.single_word) return nullptr;
    texts.insert(token.content);
    ids.insert(token.id);
    tokens.push_back({token.content, token.id, token.special});
  }
  std::array<int32_t, 256> byte_ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = ReadTokenId(Find(*vocab, ByteSpelling()[byte]), ByteSpelling()[byte]);
    if (!id.ok() || !ids.insert(*id).second) return nullptr;
    byte_ids[byte] = *id;
  }
  size_t known = 256;
  for (const auto& entry : vocab->get_object()) known -= SpelledBytes(entry.key()).size() == 1 ? 1 : 0;
  for (const auto& entry : vocab->get_object()) {
    if (SpelledBytes(entry.key()).size() != 1 && !texts.contains(std::string_view(entry.key()))) return nullptr;
  }
  if (known != 0) return nullptr;
  return std::make_shared<AlphabetTokenizer>(byte_ids, std::move(tokens));
}

}  // namespace ingot::text
