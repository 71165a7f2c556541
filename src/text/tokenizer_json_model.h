// The `model` of a tokenizer.json: vocabulary, merges and options of a BPE. Internal to tokenizer_json.cc.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"

namespace ingot::text {

struct Vocabulary {
  std::unordered_map<std::string_view, int32_t> ids;  // by text as the file has it; views into the file's JSON
  std::vector<BpeDefinition::Merge> merges;
};

// INVALID_ARGUMENT unless `id` is an integer that a token may have.
absl::StatusOr<int32_t> ReadTokenId(const base::json::value* id, std::string_view token);

// UNIMPLEMENTED for any model but BPE.
absl::StatusOr<Vocabulary> ReadVocabulary(const base::json::value& model);
// `bytes`: pieces come as bytes, and the vocabulary spells bytes as ByteSpelling does.
absl::StatusOr<BpeDefinition> ReadBpe(const base::json::value& model, const Vocabulary& vocabulary, bool bytes);

// The file's meaning as an AlphabetTokenizer, if it is one without merges that has a token for each byte and nothing
// that this class does not do; otherwise nullptr.
std::shared_ptr<const Tokenizer> ReadAlphabetTokenizer(const base::json::value& root, const base::json::value& model,
                                                       const std::vector<AddedTokenSpec>& added);

}  // namespace ingot::text
