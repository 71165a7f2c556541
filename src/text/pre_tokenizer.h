// Cuts normalised text into the pieces that a model encodes each on its own: the pre_tokenizer of tokenizer.json.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/split_pattern.h"

namespace ingot::text {

// A part of the text on its way through the stages.
struct Piece {
  std::string_view text;
  // It begins where the whole input begins: what Metaspace's scheme `first` asks. (The reference says so too of later
  // pieces that were cut out of what normalisation or byte spelling made of the first character.)
  bool starts_text = false;
};

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void Take(const Piece& piece) = 0;  // its text lives for the call
};

// Immutable, thread safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Gives `sink` the pieces in order; some may be empty. REQUIRES: valid UTF-8.
  virtual void Run(const Piece& piece, PieceSink& sink) const = 0;
};

struct PreTokenizerStages {
  std::vector<std::unique_ptr<const PreTokenizer>> stages;  // Sequence flattened; each runs on the pieces of the last
  // The last stage is a ByteLevel that leaves bytes as they are: the vocabulary is read as bytes instead.
  bool byte_level = false;
};

// Reads a pre_tokenizer. `byte_level` is only given where `allow_bytes`. UNIMPLEMENTED names the component,
// INVALID_ARGUMENT the fault.
absl::StatusOr<PreTokenizerStages> ReadPreTokenizer(const base::json::value* json, bool allow_bytes);

// Runs all stages, leaving empty pieces out.
void RunStages(const PreTokenizerStages& stages, const Piece& piece, PieceSink& sink);

// Each byte of `text` as GPT-2's printable character for it.
std::string SpellBytes(std::string_view text);

// What follows reads one field of a component; `where` names it in the error.
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
