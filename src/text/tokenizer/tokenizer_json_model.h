// Reads the `model` in tokenizer.json: vocabulary, merges, and BPE options. Internal to tokenizer_json.cc.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

struct Vocabulary {
  std::unordered_map<std::string_view, int32_t> ids;  // by string, as in the file; keys point into the file's JSON
  std::vector<BpeDefinition::Merge> merges;
};

// Returns INVALID_ARGUMENT unless `id` is a valid token id.
absl::StatusOr<int32_t> ReadTokenId(const base::json::value* id, std::string_view token);

// Returns UNIMPLEMENTED for any model except BPE.
absl::StatusOr<Vocabulary> ReadVocabulary(const base::json::value& model);
// `bytes`: true = pieces are bytes, and the vocabulary spells bytes as in ByteSpelling.
absl::StatusOr<BpeDefinition> ReadBpe(const base::json::value& model, const Vocabulary& vocabulary, bool bytes);

// Returns the file as an AlphabetTokenizer if it has no merges, a token for every byte, and only supported features.
// Otherwise returns nullptr.
std::shared_ptr<const Tokenizer> ReadAlphabetTokenizer(const base::json::value& root, const base::json::value& model,
                                                       const std::vector<AddedTokenSpec>& added);

}  // namespace ingot::text
