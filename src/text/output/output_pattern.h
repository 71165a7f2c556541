// Compiles rows of the format table: patterns become lists of elements, and the literals that begin or end sections are
// extracted.
//
// Fake delimiters: if a delimiter is a token in the tokenizer, the same characters sampled as ordinary text are not a
// delimiter. So patterns and the stream use an inner alphabet, where a mark precedes each token's text. The mark is
// 0xFF 0x01. A byte 0xFF in ordinary text becomes 0xFF 0x02. Neither occurs in UTF-8.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/output/output_row.h"

namespace ingot::text {

inline constexpr std::string_view kTokenMark = "\xFF\x01";
inline constexpr std::string_view kWhiteSpace = " \t\r\n";

// AppendInner converts ordinary text to the inner alphabet. AppendText and TextOf convert back.
void AppendInner(std::string_view text, std::string& inner);
void AppendText(std::string_view inner, std::string& text);
std::string TextOf(std::string_view inner);
// Returns a pattern's literal with its tokens marked. Where several tokens match, marks the longest.
std::string WithMarks(std::string_view literal, std::span<const std::string> tokens);

struct Element {
  enum Kind {
    kLiteral,
    kSpace,     // any whitespace; text: the whitespace that the writer writes
    kOptional,  // `text` and the following `skip` elements, which are skipped if `text` is missing
    kName,
    kId,
    kJson,
    kObject,
    kParameters,
    kKeywords,
    kKey,
    kValue,  // text: the literal that ends the value
    kIsString,
    kContent,  // used only by the writer
  };
  Kind kind = kLiteral;
  std::string text = {};
  size_t skip = 0;
  std::string pad_before = {}, pad_after = {};  // only for kValue
};

using Program = std::vector<Element>;

// Returns INVALID_ARGUMENT, with the problem, if the pattern is invalid.
absl::StatusOr<Program> CompilePattern(std::string_view pattern, std::span<const std::string> tokens);

// Return the literal that the program must begin or end with, ignoring whitespace. Return "" if there is none.
std::string FirstLiteral(const Program& program);
std::string LastLiteral(const Program& program);
bool Has(const Program& program, Element::Kind kind);

struct Section {
  Program begin, call, end;
  std::string separator;         // `between` without surrounding whitespace
  std::string between, before;   // as in the row
  std::string first_call;        // the text that begins a call; "{" for an object
  std::string after_parameters;  // literal after the parameters; empty = any text may follow
  std::string end_literal;       // first literal of `end`
  // The last literal of `call`, which ends a broken call. Empty = a broken call extends to the end of the turn.
  std::string call_end;
  bool bare = false;
};

// Text that ends ordinary content.
struct Trigger {
  std::string text;
  int section = -1;  // the section that this text begins; -1 = the text is dropped
};

struct CompiledRow {
  OutputRow row;
  std::vector<std::string> tokens;  // longest first
  std::string think_begin, think_end;
  std::vector<Section> sections;
  std::vector<Trigger> triggers;           // longest first
  std::array<bool, 256> trigger_starts{};  // first bytes of `triggers`
  std::string json_stop;                   // a trigger that looks like the start of JSON and ends unclosed JSON
  Program parameter;
  std::string parameter_begin;  // the first literal of `parameter`

  // Channel literals, with tokens marked.
  std::string start, channel, constrain, message;
  std::vector<std::string> ends;  // literals that end a body: row.channels.ends and `start`
  Program write_content, write_preamble, write_call, write_between;
};

// `tokens` are the row's delimiters that are tokens in the tokenizer.
absl::StatusOr<CompiledRow> CompileRow(const OutputRow& row, std::vector<std::string> tokens);

// Returns strings in the row that may be tokens: <...>, [...], or text between full-width bars, without whitespace.
std::vector<std::string> PossibleTokens(const OutputRow& row);

// Returns the length of the longest suffix of `text` that is a proper prefix of `literal`.
size_t PartialAtEnd(std::string_view text, std::string_view literal);

}  // namespace ingot::text
