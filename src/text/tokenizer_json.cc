// Hugging Face's tokenizer.json, written and read. The reader accepts the files whose meaning AlphabetTokenizer has
// exactly and refuses the rest by name; a general tokenizer takes its place in ParseTokenizerJson.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <unordered_map>

#include "base/json.h"
#include "text/alphabet_tokenizer.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

constexpr uintmax_t kMaxFileBytes = 256u << 20;

absl::Status Unsupported(const std::string& component) {
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer.json: ", component,
      " is not supported yet; only byte-level BPE without merges, with all 256 bytes and added tokens, is"));
}

bool IsNullOrMissing(const json::value* value) { return value == nullptr || value->is_null(); }
bool IsTrue(const json::value* value) { return value != nullptr && value->is_bool() && value->get_bool(); }

std::string TypeOf(const json::value& component) {
  const json::value* type = Find(component, "type");
  return type != nullptr && type->is_string() ? std::string(type->get_string()) : "(no type)";
}

absl::StatusOr<int32_t> TokenId(const json::value* id, const std::string& token) {
  if (id == nullptr || !id->is_int64() || id->get_int64() < 0 || id->get_int64() > kMaxTokenId) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.json: token '", token, "' needs an integer id from 0 to ", kMaxTokenId));
  }
  return static_cast<int32_t>(id->get_int64());
}

// Parts around the model that would change the ids.
absl::Status CheckPipeline(const json::value& root) {
  if (const json::value* normalizer = Find(root, "normalizer"); !IsNullOrMissing(normalizer)) {
    return Unsupported(absl::StrCat("normalizer ", TypeOf(*normalizer)));
  }
  const json::value* pre = Find(root, "pre_tokenizer");
  if (IsNullOrMissing(pre)) return Unsupported("a file without pre_tokenizer");
  if (TypeOf(*pre) != "ByteLevel") return Unsupported(absl::StrCat("pre_tokenizer ", TypeOf(*pre)));
  if (IsTrue(Find(*pre, "add_prefix_space"))) return Unsupported("pre_tokenizer ByteLevel with add_prefix_space");
  const json::value* post = Find(root, "post_processor");
  if (!IsNullOrMissing(post) && TypeOf(*post) != "ByteLevel") {
    return Unsupported(absl::StrCat("post_processor ", TypeOf(*post)));
  }
  const json::value* decoder = Find(root, "decoder");
  if (IsNullOrMissing(decoder)) return Unsupported("a file without decoder");
  if (TypeOf(*decoder) != "ByteLevel") return Unsupported(absl::StrCat("decoder ", TypeOf(*decoder)));
  return absl::OkStatus();
}

absl::Status CheckModel(const json::value& model) {
  const json::value* type = Find(model, "type");
  if (type != nullptr && TypeOf(model) != "BPE") return Unsupported(absl::StrCat("model ", TypeOf(model)));
  const json::value* merges = Find(model, "merges");
  if (merges == nullptr || !merges->is_array()) {
    return absl::InvalidArgumentError("tokenizer.json: model.merges must be an array");
  }
  if (!merges->get_array().empty()) {
    return Unsupported(absl::StrCat("model BPE with ", merges->get_array().size(), " merges"));
  }
  for (const char* flag : {"byte_fallback", "ignore_merges"}) {
    if (IsTrue(Find(model, flag))) return Unsupported(absl::StrCat("model BPE with ", flag));
  }
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const json::value* value = Find(model, option);
    if (IsNullOrMissing(value) || (value->is_string() && value->get_string().empty())) continue;
    return Unsupported(absl::StrCat("model BPE with ", option));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const json::value& root) {
  std::vector<AddedToken> added;
  const json::value* list = Find(root, "added_tokens");
  if (IsNullOrMissing(list)) return added;
  if (!list->is_array()) return absl::InvalidArgumentError("tokenizer.json: added_tokens must be an array");
  std::set<std::string> texts;
  for (const json::value& entry : list->get_array()) {
    const json::value* content = Find(entry, "content");
    if (content == nullptr || !content->is_string() || content->get_string().empty()) {
      return absl::InvalidArgumentError("tokenizer.json: every added token needs a non-empty content");
    }
    AddedToken token;
    token.text = std::string(content->get_string());
    INGOT_ASSIGN_OR_RETURN(token.id, TokenId(Find(entry, "id"), token.text));
    token.special = IsTrue(Find(entry, "special"));
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (IsTrue(Find(entry, flag))) return Unsupported(absl::StrCat("added token '", token.text, "' with ", flag));
    }
    if (!texts.insert(token.text).second) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: added token '", token.text, "' is there twice"));
    }
    added.push_back(std::move(token));
  }
  return added;
}

absl::StatusOr<std::array<int32_t, 256>> ReadAlphabet(const json::value& model, const std::set<std::string>& added) {
  const json::value* vocab = Find(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) {
    return absl::InvalidArgumentError("tokenizer.json: model.vocab must be an object");
  }
  std::array<int32_t, 256> byte_ids;
  size_t found = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const json::value* id = Find(*vocab, ByteSpelling()[byte]);
    if (id == nullptr) return Unsupported(absl::StrCat("a vocabulary without byte ", byte));
    INGOT_ASSIGN_OR_RETURN(byte_ids[byte], TokenId(id, ByteSpelling()[byte]));
    ++found;
  }
  if (vocab->get_object().size() == found) return byte_ids;
  const std::set<std::string> alphabet(ByteSpelling().begin(), ByteSpelling().end());
  for (const auto& entry : vocab->get_object()) {
    const std::string text(entry.key());
    if (!alphabet.contains(text) && !added.contains(text)) {
      return Unsupported(absl::StrCat("vocabulary entry '", text, "', which is neither a byte nor an added token,"));
    }
  }
  return byte_ids;
}

json::value AddedTokenJson(int32_t id, const std::string& text) {
  return json::object{{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                      {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view text) {
  INGOT_ASSIGN_OR_RETURN(const json::value root, base::ParseJson(text));
  const json::value* model = Find(root, "model");
  if (model == nullptr || !model->is_object()) {
    return absl::InvalidArgumentError("tokenizer.json: there is no object 'model'");
  }
  INGOT_RETURN_IF_ERROR(CheckModel(*model));
  INGOT_RETURN_IF_ERROR(CheckPipeline(root));
  INGOT_ASSIGN_OR_RETURN(std::vector<AddedToken> added, ReadAddedTokens(root));
  std::set<std::string> added_texts;
  for (const AddedToken& token : added) added_texts.insert(token.text);
  INGOT_ASSIGN_OR_RETURN(const auto byte_ids, ReadAlphabet(*model, added_texts));
  std::unordered_map<int32_t, std::string> owners;
  for (int byte = 0; byte < 256; ++byte) {
    const auto [owner, fresh] = owners.emplace(byte_ids[byte], absl::StrCat("byte ", byte));
    if (!fresh) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.json: id ", byte_ids[byte], " is both ", owner->second, " and byte ", byte));
    }
  }
  for (const AddedToken& token : added) {
    const auto [owner, fresh] = owners.emplace(token.id, token.text);
    if (!fresh) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.json: id ", token.id, " is both ", owner->second, " and ", token.text));
    }
  }
  return std::make_shared<AlphabetTokenizer>(byte_ids, std::move(added));
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& model_dir) {
  const std::filesystem::path path = std::filesystem::path(model_dir) / "tokenizer.json";
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return absl::NotFoundError(absl::StrCat(path.string(), " does not exist: a model folder needs a tokenizer.json"));
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path.string(), ": ", error.message()));
  if (bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " has ", bytes, " bytes, more than the ",
                                                   kMaxFileBytes, " a tokenizer file may have"));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || !text) return absl::UnavailableError(absl::StrCat("cannot read ", path.string()));
  auto tokenizer = ParseTokenizerJson(text.str());
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
