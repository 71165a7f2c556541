// Text to token ids and back. Implementations are immutable and thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::text {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Special tokens written in `text` are recognised where `allow_special`; otherwise their text is encoded as ordinary
  // text, so that content cannot forge a turn. None are added.
  virtual std::vector<int32_t> Encode(std::string_view text, bool allow_special) const = 0;

  // The bytes of the ids; may not be whole UTF-8 in the middle of a character. Ids outside the vocabulary decode to
  // nothing. Special tokens appear as their text unless `skip_special`.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special) const = 0;

  // The id of a token that is written out in the text and matched before all others: a special token, or an added one
  // that is ordinary text to `skip_special` (Qwen's <tool_call>), for which IsSpecial is false.
  virtual std::optional<int32_t> SpecialId(std::string_view text) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;  // largest id + 1
  // Changes whenever any id would: checksum of what defines the tokenizer.
  virtual const std::string& fingerprint() const = 0;
};

// Reads DIR/tokenizer.json (Hugging Face `tokenizers` format). Today: a byte-level BPE without merges whose vocabulary
// holds all 256 bytes, in any order, and added tokens. UNIMPLEMENTED names the component that is not supported yet;
// NOT_FOUND if there is no such file; INVALID_ARGUMENT if it is malformed.
absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& model_dir);
// The same from the file's text.
absl::StatusOr<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view json);

// The byte-level tokenizer of the smoke run: ids 0-255 are bytes, special tokens follow. `tokenizer_json` is the same
// in Hugging Face's format (byte-level BPE without merges), for the model folder: loading it gives the same ids and
// fingerprint. REQUIRES: special tokens are valid UTF-8, not empty and distinct.
std::shared_ptr<const Tokenizer> MakeByteTokenizer(const std::vector<std::string>& special_tokens);
std::string ByteTokenizerJson(const std::vector<std::string>& special_tokens);

// Cuts a stream of decoded bytes at whole UTF-8 characters; what is held back comes with later bytes. Invalid bytes
// become U+FFFD once they cannot be completed.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  std::string Flush();

 private:
  std::string held_;
};

// The whole of `bytes` through a Utf8Stream: always valid UTF-8.
std::string ToUtf8(std::string_view bytes);

}  // namespace ingot::text
