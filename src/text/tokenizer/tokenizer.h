// Converts text to token ids and back. Implementations are immutable and thread safe.
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

// The decoding state between two ids. The default is the start of the text, where some tokenizers (Llama 2) drop a
// space. MidText() is a position after unknown ids, such as the start of a model's output.
struct DecodeState {
  bool started = false;     // true = a token has been decoded
  int32_t stripped = 0;     // characters dropped at the start so far; -1 = no more are dropped
  int32_t held_spaces = 0;  // trailing spaces held back; dropped if the text ends here
  static DecodeState MidText() { return {true, -1, 0}; }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Encodes `text` without adding tokens around it. With `allow_special`, added tokens spelled in `text` become their
  // ids. Otherwise they are encoded as ordinary text, so content cannot fake a turn, and only whitespace added tokens
  // are recognized. Character-level tokenizers convert invalid UTF-8 with ToUtf8. The byte tokenizer encodes bytes
  // unchanged.
  virtual std::vector<int32_t> Encode(std::string_view text, bool allow_special) const = 0;

  // Returns a lower bound on the number of ids in Encode(text), without encoding; 0 = unknown. REQUIRES: valid UTF-8.
  virtual size_t LeastIds(std::string_view) const { return 0; }

  // Returns the ids of one string with the special ids that tokenizer.json adds (for Llama 3, <|begin_of_text|> at the
  // start).
  virtual std::vector<int32_t> AddSpecial(std::vector<int32_t> ids) const { return ids; }

  // Returns the bytes for the ids, which may begin or end within a UTF-8 character. Ids outside the vocabulary are
  // ignored. Special tokens are included as text unless `skip_special` is set.
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special) const = 0;

  // Returns valid UTF-8, exactly as Hugging Face's `tokenizers` decodes the ids. Equals ToUtf8 of Decode, with one
  // exception: with byte fallback (Llama 2, Gemma), if a run of byte tokens is not valid UTF-8, each of its bytes
  // becomes U+FFFD.
  virtual std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const;

  // Appends the text that `id` adds after `state`, and updates `state`. After all ids, `out` equals the result of
  // Decode without the last `state.held_spaces` characters.
  virtual void DecodeNext(int32_t id, bool skip_special, DecodeState& state, std::string& out) const;

  // Returns the bytes that one id adds in the middle of text.
  std::string TokenBytes(int32_t id) const;

  // Returns the id of the added token spelled `text`. IsSpecial is false for added tokens that skip_special keeps, such
  // as Qwen's <tool_call>.
  virtual std::optional<int32_t> SpecialId(std::string_view text) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;  // largest id + 1
  // Returns a checksum of the tokenizer's definition, which changes whenever any id changes.
  virtual const std::string& fingerprint() const = 0;
};

// Reads DIR/tokenizer.json in the format of Hugging Face's `tokenizers`. Supports BPE over bytes (Qwen, Llama 3,
// DeepSeek, GPT-4o, Kimi) and over characters with byte fallback (Llama 2, Gemma), and all other components. Returns
// NOT_FOUND if the file does not exist, UNIMPLEMENTED, naming an unsupported component, or INVALID_ARGUMENT if the file
// is malformed.
//
// Ids and decoded text equal those of `tokenizers` 0.23. That library numbers added tokens itself, so a file with
// different ids is an error. Only byte tokenizers (see below) may have arbitrary ids.
absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& model_dir);
// Same as LoadTokenizer, but takes the file's content.
absl::StatusOr<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view json);

// Returns the smoke run's byte-level tokenizer, where ids 0-255 are bytes, followed by special tokens.
// ByteTokenizerJson returns it in Hugging Face's format (byte-level BPE without merges). Loading that JSON gives equal
// ids and an equal fingerprint. REQUIRES: special tokens are valid UTF-8, not empty, and distinct.
std::shared_ptr<const Tokenizer> MakeByteTokenizer(const std::vector<std::string>& special_tokens);
std::string ByteTokenizerJson(const std::vector<std::string>& special_tokens);

using base::ToUtf8;
using base::Utf8Stream;

// Decodes ids one by one into whole characters. The concatenated results of all Push calls and Flush equal
// ToUtf8(Decode(ids)), starting from `state`. Not thread safe.
class DecodeStream {
 public:
  DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special, DecodeState state = {})
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), state_(state) {}
  std::string Push(int32_t id);
  std::string Flush() { return utf8_.Flush(); }
  bool holds() const { return utf8_.holds(); }  // true = the ids so far end within a character

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool skip_special_;
  DecodeState state_;
  Utf8Stream utf8_;
};

}  // namespace ingot::text
