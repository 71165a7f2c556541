// Tokenizer: text to token ids and back. Implementations are immutable and thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/utf8.h"

namespace ingot::text {

// The state of decoding between two ids. The default is the start of a text, where some tokenizers drop a space (Llama
// 2). MidText() is a place after unknown ids, such as the start of a model's output.
struct DecodeState {
  bool started = false;     // whether a token has been decoded
  int32_t stripped = 0;     // characters dropped at the start so far; -1 = dropping has ended
  int32_t held_spaces = 0;  // trailing characters held back; dropped if the text ends here
  static DecodeState MidText() { return {true, -1, 0}; }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Encodes `text` and adds no tokens around it. With `allow_special`, added tokens spelled in `text` become their ids.
  // Without it, their spelling is encoded as ordinary text, so that content cannot forge a turn; only added tokens of
  // white space are still recognised. Tokenizers over characters read invalid UTF-8 as ToUtf8 gives it; the byte
  // tokenizer takes bytes as they are.
  virtual std::vector<int32_t> Encode(std::string_view text, bool allow_special) const = 0;

  // A lower bound for the number of ids of Encode(text), from lengths. 0 = no bound is known. REQUIRES: valid UTF-8.
  virtual size_t LeastIds(std::string_view) const { return 0; }

  // The ids of one text with the special ids that tokenizer.json adds (Llama 3: <|begin_of_text|> in front).
  virtual std::vector<int32_t> AddSpecial(std::vector<int32_t> ids) const { return ids; }

  // The bytes of the ids, which may begin or end within a UTF-8 character. Ids outside the vocabulary add nothing.
  // Special tokens add their text unless `skip_special`.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special) const = 0;

  // The ids as valid UTF-8, exactly as Hugging Face's `tokenizers` decodes them. This is ToUtf8 of Decode, with one
  // exception: with byte fallback (Llama 2, Gemma), every byte of a run of byte tokens that is not valid UTF-8 becomes
  // U+FFFD.
  virtual std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const;

  // Appends the text that `id` adds after `state`, and advances `state`. Over all ids of a text this gives Decode,
  // except for the last `state.held_spaces` characters.
  virtual void DecodeNext(int32_t id, bool skip_special, DecodeState& state, std::string& out) const;

  // The bytes of one id within a text.
  std::string TokenBytes(int32_t id) const;

  // The id of an added token with this text. IsSpecial is false for added tokens that skip_special keeps, such as
  // Qwen's <tool_call>.
  virtual std::optional<int32_t> SpecialId(std::string_view text) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;  // largest id + 1
  // A checksum of the tokenizer's definition; it changes whenever any id changes.
  virtual const std::string& fingerprint() const = 0;
};

// Reads DIR/tokenizer.json in the format of Hugging Face's `tokenizers`: BPE over bytes (Qwen, Llama 3, DeepSeek,
// GPT-4o, Kimi) or over characters with byte fallback (Llama 2, Gemma), with all other components. NOT_FOUND: there is
// no such file. UNIMPLEMENTED names an unsupported component. INVALID_ARGUMENT: the file is malformed.
//
// Ids and decoded text are equal to `tokenizers` 0.23. That library numbers added tokens itself, so a file with other
// ids is an error, except for a byte tokenizer (see below), which may have any ids.
absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& model_dir);
// The same from the content of a file.
absl::StatusOr<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view json);

// The byte-level tokenizer of the smoke run: ids 0-255 are bytes, special tokens follow. ByteTokenizerJson gives it in
// Hugging Face's format (byte-level BPE without merges); loading that gives equal ids and an equal fingerprint.
// REQUIRES: special tokens are valid UTF-8, not empty and distinct.
std::shared_ptr<const Tokenizer> MakeByteTokenizer(const std::vector<std::string>& special_tokens);
std::string ByteTokenizerJson(const std::vector<std::string>& special_tokens);

using base::ToUtf8;
using base::Utf8Stream;

// Decodes ids one by one to text of whole characters. All results of Push and Flush together are ToUtf8 of the ids'
// Decode, starting from `state`. Not thread safe.
class DecodeStream {
 public:
  DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special, DecodeState state = {})
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), state_(state) {}
  std::string Push(int32_t id);
  std::string Flush() { return utf8_.Flush(); }
  bool holds() const { return utf8_.holds(); }  // the ids so far end within a character

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool skip_special_;
  DecodeState state_;
  Utf8Stream utf8_;
};

}  // namespace ingot::text
