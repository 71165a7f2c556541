#include "text/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/tokenizer/alphabet_tokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

using gguf::File;
namespace json = base::json;

constexpr int64_t kControl = 3, kUserDefined = 4;  // values of tokenizer.ggml.token_type

absl::Status Bad(const File& file, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", base::CutMessage(what)));
}

// Patterns that the tokenizers themselves publish, by llama.cpp's names. GPT-2's is empty, because it is built into the
// byte-level pre-tokenizer. `transformers` uses GPT-2's for smollm, although smollm's own tokenizer also splits digits
// first. The two differ only where several spaces come before a digit.
struct Pattern {
  std::string_view text;
  std::vector<std::string_view> names;
};
const std::vector<Pattern>& Patterns() {
  static const auto* const patterns = new std::vector<Pattern>{
      {"", {"", "default", "gpt-2", "mpt", "olmo", "jais", "smollm"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx", "smaug-bpe"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
       R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"tekken"}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}},
  };
  return *patterns;
}

// A tokenizer's fields, checked against each other.
struct Fields {
  std::string kind;                 // gpt2 or llama
  std::vector<std::string> tokens;  // as the file spells them
  std::vector<int64_t> types;       // of each token, or empty
  std::optional<std::string> bos, eos, unknown, padding;
  bool adds_bos = false, adds_eos = false;
};

absl::StatusOr<std::optional<std::string>> TokenNamed(const File& file, const char* name,
                                                      const std::vector<std::string>& tokens) {
  const std::string key = absl::StrCat("tokenizer.ggml.", name, "_token_id");
  INGOT_ASSIGN_OR_RETURN(const int64_t* id, file.Find<int64_t>(key));
  if (id == nullptr) return std::optional<std::string>();
  if (*id < 0 || *id >= std::ssize(tokens)) {
    return Bad(file, absl::StrCat("field '", key, "' is ", *id, ", but the vocabulary has ", tokens.size(), " tokens"));
  }
  return std::optional<std::string>(tokens[*id]);
}

absl::StatusOr<Fields> ReadFields(const File& file) {
  Fields fields;
  INGOT_ASSIGN_OR_RETURN(fields.kind, file.Require<std::string>("tokenizer.ggml.model"));
  if (fields.kind != "gpt2" && fields.kind != "llama") {
    return Bad(file, absl::StrCat("field 'tokenizer.ggml.model' is '", fields.kind, "'; supported: gpt2 and llama"));
  }
  INGOT_ASSIGN_OR_RETURN(fields.tokens, file.Require<std::vector<std::string>>("tokenizer.ggml.tokens"));
  INGOT_ASSIGN_OR_RETURN(fields.types, file.FindOr("tokenizer.ggml.token_type", std::vector<int64_t>()));
  if (!fields.types.empty() && fields.types.size() != fields.tokens.size()) {
    return Bad(file, absl::StrCat("field 'tokenizer.ggml.token_type' has ", fields.types.size(), " values for ",
                                  fields.tokens.size(), " tokens"));
  }
  INGOT_ASSIGN_OR_RETURN(fields.bos, TokenNamed(file, "bos", fields.tokens));
  INGOT_ASSIGN_OR_RETURN(fields.eos, TokenNamed(file, "eos", fields.tokens));
  INGOT_ASSIGN_OR_RETURN(fields.unknown, TokenNamed(file, "unknown", fields.tokens));
  INGOT_ASSIGN_OR_RETURN(fields.padding, TokenNamed(file, "padding", fields.tokens));
  // By default, text in a SentencePiece vocabulary begins with its begin token, as in llama.cpp.
  INGOT_ASSIGN_OR_RETURN(fields.adds_bos, file.FindOr("tokenizer.ggml.add_bos_token", fields.kind == "llama"));
  INGOT_ASSIGN_OR_RETURN(fields.adds_eos, file.FindOr("tokenizer.ggml.add_eos_token", false));
  return fields;
}

bool IsByteSpelled(std::string_view token) {
  static const auto* const alphabet = [] {
    auto* set = new std::set<std::string_view>();
    for (const std::string& spelling : ByteSpelling()) set->insert(spelling);
    return set;
  }();
  for (size_t at = 0; at < token.size();) {
    const uint32_t size = DecodeAt(token, at).size;
    if (!alphabet->contains(token.substr(at, size))) return false;
    at += size;
  }
  return true;
}

// Returns the vocabulary's strings. llama.cpp writes some byte-level tokens as plain text. Special tokens stay plain.
std::vector<std::string> Spellings(const Fields& fields) {
  std::vector<std::string> spelled = fields.tokens;
  if (fields.kind != "gpt2") return spelled;
  for (size_t id = 0; id < spelled.size(); ++id) {
    const bool special = !fields.types.empty() && fields.types[id] == kControl;
    if (special || IsByteSpelled(spelled[id])) continue;
    std::string bytes;
    for (const char byte : spelled[id]) bytes += ByteSpelling()[static_cast<uint8_t>(byte)];
    spelled[id] = std::move(bytes);
  }
  return spelled;
}

using Ids = std::unordered_map<std::string_view, int64_t>;

absl::StatusOr<Ids> IdsOf(const File& file, const std::vector<std::string>& tokens) {
  Ids ids;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto [first, fresh] = ids.emplace(tokens[id], static_cast<int64_t>(id));
    if (fresh) continue;
    return Bad(file,
               absl::StrCat("field 'tokenizer.ggml.tokens' has '", tokens[id], "' at ", first->second, " and at ", id));
  }
  return ids;
}

absl::StatusOr<json::array> WrittenMerges(const File& file, const std::vector<std::string>& merges) {
  json::array sides;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) {
      return Bad(
          file, absl::StrCat("field 'tokenizer.ggml.merges' has '", merge, "' at ", rank, ", which is not two tokens"));
    }
    sides.push_back(json::array{merge.substr(0, space), merge.substr(space + 1)});
  }
  return sides;
}

// A token's cut into two tokens. `transformers` orders the cuts of all tokens by score, then by the lengths of the
// sides in characters, greatest first. Equal cuts stay in the order of their tokens. Equal cuts of one token are
// ordered by the ids of their sides.
struct TokenCut {
  std::string_view left, right;
  int64_t left_id, right_id;
  double score;
  size_t left_chars, right_chars;
};

std::vector<TokenCut> CutsOf(std::string_view token, double score, const Ids& ids) {
  std::vector<size_t> borders;
  for (size_t at = 0; at < token.size(); at += DecodeAt(token, at).size) borders.push_back(at);
  std::vector<TokenCut> cuts;
  for (size_t i = 1; i < borders.size(); ++i) {
    const std::string_view left = token.substr(0, borders[i]), right = token.substr(borders[i]);
    const auto left_id = ids.find(left), right_id = ids.find(right);
    if (left_id == ids.end() || right_id == ids.end()) continue;
    cuts.push_back({left, right, left_id->second, right_id->second, score, i, borders.size() - i});
  }
  std::stable_sort(cuts.begin(), cuts.end(), [](const TokenCut& a, const TokenCut& b) {
    return std::tie(a.left_id, a.right_id) < std::tie(b.left_id, b.right_id);
  });
  return cuts;
}

absl::StatusOr<json::array> MergesByScore(const File& file, const std::vector<std::string>& tokens, const Ids& ids) {
  INGOT_ASSIGN_OR_RETURN(const auto scores, file.Require<std::vector<double>>("tokenizer.ggml.scores"));
  if (scores.size() != tokens.size()) {
    return Bad(file, absl::StrCat("field 'tokenizer.ggml.scores' has ", scores.size(), " values for ", tokens.size(),
                                  " tokens"));
  }
  std::vector<TokenCut> cuts;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (scores[id] != scores[id]) return Bad(file, absl::StrCat("the score of token ", id, " is not a number"));
    for (const TokenCut& cut : CutsOf(tokens[id], scores[id], ids)) cuts.push_back(cut);
  }
  std::stable_sort(cuts.begin(), cuts.end(), [](const TokenCut& a, const TokenCut& b) {
    return std::tie(a.score, a.left_chars, a.right_chars) > std::tie(b.score, b.left_chars, b.right_chars);
  });
  json::array merges;
  for (const TokenCut& cut : cuts) {
    merges.push_back(json::array{json::string(cut.left), json::string(cut.right)});
  }
  return merges;
}

json::value AddedToken(int64_t id, const std::string& text, bool special) {
  return json::object{{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                      {"rstrip", false}, {"normalized", false}, {"special", special}};
}

json::array AddedTokens(const Fields& fields, const Ids& ids) {
  std::map<int64_t, bool> special;  // by id
  for (size_t id = 0; id < fields.types.size(); ++id) {
    const bool whole =
        fields.types[id] == kControl || (fields.types[id] == kUserDefined && ids.contains(fields.tokens[id]));
    if (whole) special[static_cast<int64_t>(id)] = fields.types[id] == kControl;
  }
  for (const auto* named : {&fields.bos, &fields.eos, &fields.unknown, &fields.padding}) {
    if (!named->has_value()) continue;
    if (const auto found = ids.find(**named); found != ids.end()) special.emplace(found->second, true);
  }
  json::array added;
  for (const auto& [id, is_special] : special) added.push_back(AddedToken(id, fields.tokens[id], is_special));
  return added;
}

absl::StatusOr<json::value> PreTokenizer(const File& file, const Fields& fields) {
  if (fields.kind == "llama") {
    return json::value{
        {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "first"}, {"split", false}};
  }
  INGOT_ASSIGN_OR_RETURN(const auto name, file.FindOr("tokenizer.ggml.pre", std::string()));
  for (const Pattern& pattern : Patterns()) {
    if (std::find(pattern.names.begin(), pattern.names.end(), name) == pattern.names.end()) continue;
    json::object bytes{{"type", "ByteLevel"},
                       {"add_prefix_space", false},
                       {"trim_offsets", true},
                       {"use_regex", pattern.text.empty()}};
    if (pattern.text.empty()) return json::value(std::move(bytes));
    json::object split{{"type", "Split"},
                       {"pattern", json::object{{"Regex", json::string(pattern.text)}}},
                       {"behavior", "Isolated"},
                       {"invert", false}};
    return json::value{{"type", "Sequence"}, {"pretokenizers", json::array{std::move(split), std::move(bytes)}}};
  }
  return Bad(file, absl::StrCat("field 'tokenizer.ggml.pre' is '", name,
                                "', an unknown pre-tokenizer: put the model's own tokenizer.json next to the weights"));
}

json::value Decoder(const Fields& fields) {
  if (fields.kind == "gpt2") {
    return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  }
  const json::value replace{
      {"type", "Replace"}, {"pattern", json::object{{"String", "\xE2\x96\x81"}}}, {"content", " "}};
  const json::value bytes{{"type", "ByteFallback"}}, fuse{{"type", "Fuse"}};
  const json::value strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"type", "Sequence"}, {"decoders", json::array{replace, bytes, fuse, strip}}};
}

json::value PostProcessor(const Fields& fields, const Ids& ids) {
  json::object special;
  json::array single, pair;
  const auto add = [&](json::array& to, const std::optional<std::string>& token, bool wanted, int type) {
    if (!wanted || !token.has_value()) return;
    to.push_back(json::object{{"SpecialToken", json::object{{"id", *token}, {"type_id", type}}}});
    const auto id = ids.find(*token);
    special[*token] = json::object{
        {"id", *token}, {"ids", json::array{id == ids.end() ? 0 : id->second}}, {"tokens", json::array{*token}}};
  };
  const auto text = [](json::array& to, const char* name, int type) {
    to.push_back(json::object{{"Sequence", json::object{{"id", name}, {"type_id", type}}}});
  };
  for (json::array* to : {&single, &pair}) {
    add(*to, fields.bos, fields.adds_bos, 0);
    text(*to, "A", 0);
    add(*to, fields.eos, fields.adds_eos, 0);
  }
  add(pair, fields.bos, fields.adds_bos, 1);
  text(pair, "B", 1);
  add(pair, fields.eos, fields.adds_eos, 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

absl::StatusOr<std::string> TokenizerJson(const File& file, const Fields& fields) {
  const std::vector<std::string> spelled = Spellings(fields);
  INGOT_ASSIGN_OR_RETURN(const Ids ids, IdsOf(file, spelled));
  INGOT_ASSIGN_OR_RETURN(const auto* written, file.Find<std::vector<std::string>>("tokenizer.ggml.merges"));
  INGOT_ASSIGN_OR_RETURN(json::array merges,
                         written != nullptr ? WrittenMerges(file, *written) : MergesByScore(file, spelled, ids));
  INGOT_ASSIGN_OR_RETURN(json::value pre_tokenizer, PreTokenizer(file, fields));
  json::object vocabulary;
  vocabulary.reserve(spelled.size());
  for (size_t id = 0; id < spelled.size(); ++id) vocabulary[spelled[id]] = id;
  const bool pieces = fields.kind == "llama";
  json::object model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", pieces ? json::value(nullptr) : json::value("")},
                     {"end_of_word_suffix", pieces ? json::value(nullptr) : json::value("")},
                     {"fuse_unk", pieces},
                     {"byte_fallback", pieces},
                     {"ignore_merges", false},
                     {"vocab", std::move(vocabulary)},
                     {"merges", std::move(merges)}};
  const json::object root{{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", AddedTokens(fields, ids)},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", std::move(pre_tokenizer)},
                          {"post_processor", PostProcessor(fields, ids)},
                          {"decoder", Decoder(fields)},
                          {"model", std::move(model)}};
  return base::PrintJson(root) + "\n";
}

std::string TokenizerConfigJson(const Fields& fields) {
  json::object config{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto add = [&config](const char* key, const std::optional<std::string>& token) {
    if (token.has_value()) config[key] = *token;
  };
  add("bos_token", fields.bos);
  add("eos_token", fields.eos);
  add("unk_token", fields.unknown);
  add("pad_token", fields.padding);
  config["add_bos_token"] = fields.adds_bos && fields.bos.has_value();
  config["add_eos_token"] = fields.adds_eos && fields.eos.has_value();
  config["clean_up_tokenization_spaces"] = false;
  return base::PrintJson(config) + "\n";
}

// Adds templates for uses other than chat, such as tool_use. Their name follows the field's name.
absl::Status AddNamedTemplates(const File& file, std::map<std::string, std::string>& files) {
  constexpr std::string_view kPrefix = "tokenizer.chat_template.";
  for (const auto& [key, value] : file.fields()) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string name = key.substr(kPrefix.size());
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(c) || c == '_' || c == '-';
    });
    if (!is_name) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": field '", base::Shown(key),
                       "' has a name that cannot be a file name: use only letters, digits, _, and -"));
    }
    INGOT_ASSIGN_OR_RETURN(const auto* text, file.Find<std::string>(key));
    files[absl::StrCat("additional_chat_templates/", name, ".jinja")] = *text;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const File& file) {
  INGOT_ASSIGN_OR_RETURN(const Fields fields, ReadFields(file));
  std::map<std::string, std::string> files;
  INGOT_ASSIGN_OR_RETURN(files["tokenizer.json"], TokenizerJson(file, fields));
  // If the result is unreadable, fails here, where the field can be named, rather than when the folder is used.
  const auto tokenizer = ParseTokenizerJson(files["tokenizer.json"]);
  if (!tokenizer.ok()) return base::Annotate(tokenizer.status(), absl::StrCat(file.path(), ": its tokenizer"));
  files["tokenizer_config.json"] = TokenizerConfigJson(fields);
  INGOT_ASSIGN_OR_RETURN(const auto* chat, file.Find<std::string>("tokenizer.chat_template"));
  if (chat != nullptr) files["chat_template.jinja"] = *chat;
  INGOT_RETURN_IF_ERROR(AddNamedTemplates(file, files));
  return files;
}

}  // namespace ingot::text
