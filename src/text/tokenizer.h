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

// Where decoding stands between two ids of a text. A fresh one is a text's start, where some tokenizers drop a space
// (Llama 2); MidText() is the place after ids that are not at hand, as a model's output after its prompt.
struct DecodeState {
  bool started = false;     // some token has been decoded
  int32_t stripped = 0;     // characters dropped at the start so far; -1: no more will be
  int32_t held_spaces = 0;  // characters that are dropped if the text ends here
  static DecodeState MidText() { return {true, -1, 0}; }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Special tokens written in `text` are recognised where `allow_special`; otherwise their text is encoded as ordinary
  // text, so that content cannot forge a turn. That goes for all added tokens, but those that are white space alone.
  // None are added. Text that is not UTF-8 is read as ToUtf8 gives it by tokenizers that know characters; the byte
  // tokenizer takes bytes as they are.
  virtual std::vector<int32_t> Encode(std::string_view text, bool allow_special) const = 0;

  // `ids` of one text with what the tokenizer's template puts around it (Llama 3: <|begin_of_text|> in front).
  virtual std::vector<int32_t> AddSpecial(std::vector<int32_t> ids) const { return ids; }

  // The bytes of the ids; may not be whole UTF-8 in the middle of a character. Ids outside the vocabulary decode to
  // nothing. Special tokens appear as their text unless `skip_special`.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special) const = 0;

  // Decode as valid UTF-8, exactly as Hugging Face's `tokenizers` decodes: ToUtf8 of Decode, but that tokenizers with
  // byte fallback (Llama 2, Gemma) replace each byte of a run of byte tokens that is not UTF-8 as a whole.
  virtual std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const;

  // Appends what `id` adds to the text that `state` stands in, and moves on. All ids of a text one after the other give
  // Decode of them all, save `state.held_spaces` characters at its end.
  virtual void DecodeNext(int32_t id, bool skip_special, DecodeState& state, std::string& out) const;

  // The bytes of one id in the middle of a text.
  std::string TokenBytes(int32_t id) const;

  // The id of a token that is written out in the text and matched before all others: a special token, or an added one
  // that is ordinary text to `skip_special` (Qwen's <tool_call>), for which IsSpecial is false.
  virtual std::optional<int32_t> SpecialId(std::string_view text) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;  // largest id + 1
  // Changes whenever any id would: checksum of what defines the tokenizer.
  virtual const std::string& fingerprint() const = 0;
};

// Reads DIR/tokenizer.json (Hugging Face `tokenizers` format): BPE over bytes (Qwen, Llama 3, DeepSeek, GPT-4o, Kimi)
// or over characters with byte fallback (Llama 2, Gemma), and what stands around it. UNIMPLEMENTED names the component
// that is not supported; NOT_FOUND if there is no such file; INVALID_ARGUMENT if it is malformed.
//
// Ids and decoded text are those of `tokenizers` 0.23. It numbers added tokens itself; a file that says otherwise is
// refused. (Not one for a byte tokenizer, see below: its ids may be any.)
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
  bool holds() const { return !held_.empty(); }  // the beginning of a character

 private:
  std::string held_;
};

// The whole of `bytes` through a Utf8Stream: always valid UTF-8.
std::string ToUtf8(std::string_view bytes);

// Ids that arrive one by one, to text that is always whole characters: all that Push and Flush return is ToUtf8(Decode)
// of all ids, from where `state` stands. Not thread safe.
class DecodeStream {
 public:
  DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special, DecodeState state = {})
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), state_(state) {}
  std::string Push(int32_t id);
  std::string Flush() { return utf8_.Flush(); }
  bool holds() const { return utf8_.holds(); }  // ids so far end within a character

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool skip_special_;
  DecodeState state_;
  Utf8Stream utf8_;
};

}  // namespace ingot::text
