// Compiled rows of the table: patterns as lists of elements, and the texts that begin or end a section.
//
// Forged delimiters. If a delimiter is a token of the tokenizer, the same characters sampled as ordinary text are not
// the delimiter. Patterns and stream therefore use an inner alphabet, in which a mark precedes the text of a token. The
// mark is 0xFF 0x01; a byte 0xFF of ordinary text becomes 0xFF 0x02. Neither occurs in UTF-8.
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

// AppendInner: ordinary text to the inner alphabet. AppendText, TextOf: the inner alphabet to text.
void AppendInner(std::string_view text, std::string& inner);
void AppendText(std::string_view inner, std::string& text);
std::string TextOf(std::string_view inner);
// A literal of a pattern with its tokens marked; where several tokens begin, the longest wins.
std::string WithMarks(std::string_view literal, std::span<const std::string> tokens);

struct Element {
  enum Kind {
    kLiteral,
    kSpace,     // any white space; text: as the writer writes it
    kOptional,  // `text`, and `skip` elements after it that are skipped if `text` is missing
    kName,
    kId,
    kJson,
    kObject,
    kParameters,
    kKeywords,
    kKey,
    kValue,  // text: the literal that ends the value
    kIsString,
    kContent,  // only used by the writer
  };
  Kind kind = kLiteral;
  std::string text = {};
  size_t skip = 0;
  std::string pad_before = {}, pad_after = {};  // only of kValue
};

using Program = std::vector<Element>;

// INVALID_ARGUMENT names the fault of the pattern.
absl::StatusOr<Program> CompilePattern(std::string_view pattern, std::span<const std::string> tokens);

// The literal that the program must begin (end) with, apart from white space; empty if it begins (ends) otherwise.
std::string FirstLiteral(const Program& program);
std::string LastLiteral(const Program& program);
bool Has(const Program& program, Element::Kind kind);

struct Section {
  Program begin, call, end;
  std::string separator;         // `between` without white space around it
  std::string between, before;   // as in the row
  std::string first_call;        // the beginning of a call; "{" for an object
  std::string after_parameters;  // the literal after the parameters; empty = any text may follow
  std::string end_literal;       // first literal of `end`
  std::string call_end;          // last literal of `call`, where a broken call ends; empty = it ends with the turn
  bool bare = false;
};

// A text that ends ordinary content.
struct Trigger {
  std::string text;
  int section = -1;  // the section that it begins; -1 = it is dropped
};

struct CompiledRow {
  OutputRow row;
  std::vector<std::string> tokens;  // longest first
  std::string think_begin, think_end;
  std::vector<Section> sections;
  std::vector<Trigger> triggers;           // longest first
  std::array<bool, 256> trigger_starts{};  // first bytes of `triggers`
  std::string json_stop;                   // a trigger that begins like JSON; it ends JSON that is not closed
  Program parameter;
  std::string parameter_begin;  // its first literal

  // Texts of channels, tokens marked.
  std::string start, channel, constrain, message;
  std::vector<std::string> ends;  // texts that end a body: row.channels.ends and `start`
  Program write_content, write_preamble, write_call, write_between;
};

// `tokens`: the row's delimiters that are tokens of the tokenizer.
absl::StatusOr<CompiledRow> CompileRow(const OutputRow& row, std::vector<std::string> tokens);

// Texts in the row that may be tokens: <...>, [...] or text between full-width bars, without white space.
std::vector<std::string> PossibleTokens(const OutputRow& row);

// The number of bytes at the end of `text` that are a proper prefix of `literal`; the largest such number.
size_t PartialAtEnd(std::string_view text, std::string_view literal);

}  // namespace ingot::text
