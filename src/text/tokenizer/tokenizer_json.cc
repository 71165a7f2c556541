// Reads Hugging Face's tokenizer.json, and writes it for the byte tokenizer.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer/alphabet_tokenizer.h"
#include "text/tokenizer/pipeline_tokenizer.h"
#include "text/tokenizer/tokenizer_json_model.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

constexpr int64_t kMaxFileBytes = 256u << 20;

absl::StatusOr<std::vector<AddedTokenSpec>> ReadAddedTokens(const json::value& root) {
  std::vector<AddedTokenSpec> added;
  const json::value* list = Find(root, "added_tokens");
  if (IsNullOrMissing(list)) return added;
  if (!list->is_array()) return MalformedComponent("added_tokens must be an array");
  std::map<std::string, int32_t> texts;
  std::map<int32_t, std::string> ids;
  for (const json::value& entry : list->get_array()) {
    const json::value* content = Find(entry, "content");
    if (content == nullptr || !content->is_string() || content->get_string().empty()) {
      return MalformedComponent("every added token needs a non-empty content");
    }
    AddedTokenSpec token;
    token.content = std::string(content->get_string());
    const std::string where = absl::StrCat("added token '", token.content, "'");
    INGOT_ASSIGN_OR_RETURN(token.id, ReadTokenId(Find(entry, "id"), token.content));
    INGOT_ASSIGN_OR_RETURN(token.special, ReadBool(entry, "special", false, where));
    INGOT_ASSIGN_OR_RETURN(token.single_word, ReadBool(entry, "single_word", false, where));
    INGOT_ASSIGN_OR_RETURN(token.lstrip, ReadBool(entry, "lstrip", false, where));
    INGOT_ASSIGN_OR_RETURN(token.rstrip, ReadBool(entry, "rstrip", false, where));
    INGOT_ASSIGN_OR_RETURN(token.normalized, ReadBool(entry, "normalized", !token.special, where));
    if (!texts.emplace(token.content, token.id).second)
      return MalformedComponent(absl::StrCat(where, " appears twice"));
    const auto [owner, fresh] = ids.emplace(token.id, token.content);
    if (!fresh) {
      return MalformedComponent(absl::StrCat("id ", token.id, " is both ", owner->second, " and ", token.content));
    }
    added.push_back(std::move(token));
  }
  return added;
}

// Returns every token by id, for the decoder. An added token replaces the vocabulary's token with the same id.
absl::StatusOr<std::vector<TokenDecoder::Token>> DecoderTokens(const Vocabulary& vocabulary,
                                                               const std::vector<AddedTokenSpec>& added,
                                                               const NormalizerChain& normalizer) {
  int32_t largest = -1;
  for (const auto& [text, id] : vocabulary.ids) largest = std::max(largest, id);
  for (const AddedTokenSpec& token : added) largest = std::max(largest, token.id);
  std::vector<TokenDecoder::Token> tokens(static_cast<size_t>(largest + 1));
  for (const auto& [text, id] : vocabulary.ids) {
    if (tokens[id].exists) {
      return MalformedComponent(
          absl::StrCat("id ", id, " is both '", tokens[id].text, "' and '", base::View(text), "'"));
    }
    tokens[id] = {std::string(text), true, false};
  }
  std::set<std::string> special;
  auto next_id = static_cast<int32_t>(vocabulary.ids.size());
  for (const AddedTokenSpec& token : added) {
    const auto known = vocabulary.ids.find(token.content);
    const int32_t id = known != vocabulary.ids.end() ? known->second : next_id++;
    if (id != token.id) {
      return MalformedComponent(absl::StrCat(
          "added token '", token.content, "' has the id ", token.id, " in the file, but `tokenizers` would give it ",
          id, ", ", known != vocabulary.ids.end() ? "as in the vocabulary" : "the next id after the vocabulary's"));
    }
    if (tokens[id].exists && tokens[id].text != token.content) {
      return MalformedComponent(absl::StrCat("id ", id, " is both '", tokens[id].text, "' and '", token.content, "'"));
    }
    tokens[token.id] = {token.normalized ? RunNormalizers(normalizer, token.content) : token.content, true, false};
    if (token.special) special.insert(token.content);
  }
  for (TokenDecoder::Token& token : tokens) token.special = token.exists && special.contains(token.text);
  return tokens;
}

// Returns a checksum of everything that affects ids, independent of the file's layout.
std::string FingerprintOf(const json::value& root, const Vocabulary& vocabulary) {
  std::vector<std::pair<int32_t, std::string_view>> tokens;
  for (const auto& [text, id] : vocabulary.ids) tokens.emplace_back(id, text);
  std::sort(tokens.begin(), tokens.end());
  std::string definition = "pipeline";
  for (const auto& [id, text] : tokens) {
    absl::StrAppend(&definition, "\n", id, " ", text.size(), " ", base::View(text));
  }
  for (const auto& merge : vocabulary.merges) absl::StrAppend(&definition, "\n", merge.left, " ", merge.right);
  for (const char* part : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const json::value* value = Find(root, part);
    definition += "\n";
    if (value != nullptr) definition += base::CanonicalJson(*value);
  }
  json::object options;
  for (const auto& entry : Find(root, "model")->get_object()) {
    if (entry.key() != "vocab" && entry.key() != "merges") options[entry.key()] = entry.value();
  }
  definition += "\n" + base::CanonicalJson(options);
  return base::Hex(base::ContentKey(definition));
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> MakePipeline(const json::value& root, const json::value& model,
                                                              std::vector<AddedTokenSpec> added) {
  PipelineParts parts;
  parts.added = std::move(added);
  INGOT_ASSIGN_OR_RETURN(parts.normalizer, ReadNormalizer(Find(root, "normalizer")));
  // If bytes are spelled twice, or fall back to the bytes of their spelling, the spelling is needed as text.
  INGOT_ASSIGN_OR_RETURN(const bool byte_fallback, ReadBool(model, "byte_fallback", false, "model BPE"));
  INGOT_ASSIGN_OR_RETURN(parts.pre_tokenizer, ReadPreTokenizer(Find(root, "pre_tokenizer"),
                                                               !parts.normalizer.spells_bytes && !byte_fallback));
  INGOT_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(model));
  INGOT_ASSIGN_OR_RETURN(auto tokens, DecoderTokens(vocabulary, parts.added, parts.normalizer));
  parts.vocab_size = static_cast<int32_t>(tokens.size());
  INGOT_ASSIGN_OR_RETURN(parts.decoder, TokenDecoder::Read(Find(root, "decoder"), std::move(tokens)));
  INGOT_ASSIGN_OR_RETURN(parts.post_processor, PostProcessor::Read(Find(root, "post_processor")));
  INGOT_ASSIGN_OR_RETURN(BpeDefinition definition, ReadBpe(model, vocabulary, parts.pre_tokenizer.byte_level));
  parts.model = std::make_unique<Bpe>(std::move(definition));
  parts.fingerprint = FingerprintOf(root, vocabulary);
  return std::make_shared<PipelineTokenizer>(std::move(parts));
}

json::value AddedTokenJson(int32_t id, const std::string& text) {
  return json::object{{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                      {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// Appends the tokens of tokenizer_config.json's added_tokens_decoder that tokenizer.json does not list, in the order of
// their ids, as transformers does.
absl::Status AddTokensOf(std::string_view tokenizer_config, json::value& root) {
  INGOT_ASSIGN_OR_RETURN(const json::value config, base::ParseJson(tokenizer_config));
  const json::value* const decoder = Find(config, "added_tokens_decoder");
  if (IsNullOrMissing(decoder)) return absl::OkStatus();
  if (!decoder->is_object() || !root.is_object()) return MalformedComponent("added_tokens_decoder must be an object");
  json::value& list = root.get_object()["added_tokens"];
  if (list.is_null()) list = json::array();
  if (!list.is_array()) return MalformedComponent("added_tokens must be an array");
  std::set<std::string> listed;
  for (const json::value& entry : list.get_array()) {
    if (const json::value* content = Find(entry, "content"); content != nullptr && content->is_string())
      listed.emplace(content->get_string());
  }
  std::map<int32_t, json::object> missing;
  for (const auto& [key, entry] : decoder->get_object()) {
    const json::value* const content = Find(entry, "content");
    if (content == nullptr || !content->is_string() || listed.contains(std::string(content->get_string()))) continue;
    int32_t id = 0;
    if (!absl::SimpleAtoi(std::string(key), &id) || id < 0) {
      return MalformedComponent(absl::StrCat("added_tokens_decoder has the id '", std::string(key), "'"));
    }
    json::object token = entry.get_object();
    token["id"] = id;
    missing.emplace(id, std::move(token));
  }
  for (auto& [id, token] : missing) list.get_array().push_back(std::move(token));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> TokenizerOf(const json::value& root) {
  const json::value* model = Find(root, "model");
  if (model == nullptr || !model->is_object()) return MalformedComponent("the object 'model' is missing");
  INGOT_ASSIGN_OR_RETURN(std::vector<AddedTokenSpec> added, ReadAddedTokens(root));
  if (auto alphabet = ReadAlphabetTokenizer(root, *model, added)) return alphabet;
  return MakePipeline(root, *model, std::move(added));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view text) {
  INGOT_ASSIGN_OR_RETURN(const json::value root, base::ParseJson(text));
  return TokenizerOf(root);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir), path = folder / "tokenizer.json";
  const absl::StatusOr<std::string> text = base::ReadFile(path, kMaxFileBytes);
  if (!text.ok()) return base::Annotate(text.status(), "a model folder needs a tokenizer.json");
  const std::filesystem::path config = folder / "tokenizer_config.json";
  auto root = base::ParseJson(*text);
  if (!root.ok()) return base::Annotate(root.status(), path.string());
  const absl::StatusOr<std::string> config_text = base::ReadFile(config, kMaxFileBytes);
  if (config_text.ok()) {
    INGOT_RETURN_IF_ERROR(base::Annotate(AddTokensOf(*config_text, *root), config.string()));
  } else if (!absl::IsNotFound(config_text.status())) {
    return config_text.status();
  }
  auto tokenizer = TokenizerOf(*root);
  if (!tokenizer.ok()) return base::Annotate(tokenizer.status(), path.string());
  return tokenizer;
}

std::string ByteTokenizerJson(const std::vector<std::string>& special_tokens) {
  json::array added;
  for (const std::string& text : special_tokens) {
    added.push_back(AddedTokenJson(256 + static_cast<int32_t>(added.size()), text));
  }
  json::object vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[ByteSpelling()[byte]] = byte;
  const json::object root{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       json::object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder",
       json::object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}},
      {"model", json::object{{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", vocab},
                             {"merges", json::array{}}}},
  };
  return base::PrintJson(root);
}

}  // namespace ingot::text
