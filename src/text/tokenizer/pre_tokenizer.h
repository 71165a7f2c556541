// Implements the pre_tokenizer in tokenizer.json, which cuts normalized text into pieces that the model encodes
// separately.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/id_bound.h"
#include "text/tokenizer/split_pattern.h"

namespace ingot::text {

// A part of the text between two stages.
struct Piece {
  std::string_view text;
  // True = the piece begins at the start of the input, which matters to Metaspace's scheme `first`. (The reference also
  // sets this for later pieces that originate from the normalized or spelled form of the first character.)
  bool starts_text = false;
};

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void Accept(const Piece& piece) = 0;  // piece.text is valid only during the call
};

// Immutable and thread safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Passes the pieces to `sink` in order. Pieces may be empty. REQUIRES: valid UTF-8.
  virtual void Run(const Piece& piece, PieceSink& sink) const = 0;
  virtual Shrinkage shrinkage() const { return {}; }
};

struct PreTokenizerStages {
  std::vector<std::unique_ptr<const PreTokenizer>> stages;  // in order, with Sequences flattened
  // True = the last stage is a ByteLevel that keeps bytes, and the vocabulary contains bytes instead of their
  // spellings.
  bool byte_level = false;
};

// Reads a pre_tokenizer. Unless `allow_bytes` is set, byte_level is false in the result. Returns UNIMPLEMENTED,
// naming an unsupported component, or INVALID_ARGUMENT, with the problem.
absl::StatusOr<PreTokenizerStages> ReadPreTokenizer(const base::json::value* json, bool allow_bytes);

// Runs all stages. Drops empty pieces.
void RunStages(const PreTokenizerStages& stages, const Piece& piece, PieceSink& sink);

// Replaces each byte with GPT-2's printable character for it.
std::string SpellBytes(std::string_view text);

// Helpers that read one field of a component. `where` names the component in errors.
absl::StatusOr<std::shared_ptr<const SplitPattern>> ReadPattern(const base::json::value& component,
                                                                std::string_view where);
absl::StatusOr<bool> ReadBool(const base::json::value& component, std::string_view field, bool otherwise,
                              std::string_view where);
absl::StatusOr<std::string> ReadString(const base::json::value& component, std::string_view field,
                                       std::string_view where);
std::string TypeOf(const base::json::value& component);
bool IsNullOrMissing(const base::json::value* value);
absl::Status UnsupportedComponent(std::string_view component);
absl::Status MalformedComponent(std::string_view what);

}  // namespace ingot::text
