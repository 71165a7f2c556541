// Rows of the table, ready to run: patterns cut into elements, and the texts that begin or end something found.
//
// Forged delimiters. Where a delimiter is a token of the tokenizer, the same characters sampled as ordinary text are
// not the delimiter. So both sides are kept in an inner alphabet: a token's text has a mark before it, in the patterns
// and in the stream. The mark is 0xFF 0x01, and a byte 0xFF of ordinary text becomes 0xFF 0x02; neither occurs in
// UTF-8.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/output_row.h"

namespace ingot::text {

inline constexpr std::string_view kTokenMark = "\xFF\x01";
inline constexpr std::string_view kWhiteSpace = " \t\r\n";

// Ordinary text in the inner alphabet, and the inner alphabet back to text.
void AppendInner(std::string_view text, std::string& inner);
void AppendText(std::string_view inner, std::string& text);
std::string TextOf(std::string_view inner);
// A literal of a pattern, its tokens marked; the longest token wins.
std::string WithMarks(std::string_view literal, std::span<const std::string> tokens);

struct Element {
  enum Kind {
    kLiteral,
    kSpace,     // text: as written
    kOptional,  // text: what must stand here, else `skip` elements after it are left out
    kName,
    kId,
    kJson,
    kObject,
    kParameters,
    kKeywords,
    kKey,
    kValue,  // text: the literal that ends it
    kIsString,
    kContent,  // for writing only
  };
  Kind kind = kLiteral;
  std::string text = {};
  size_t skip = 0;
  std::string pad_before = {}, pad_after = {};  // kValue
};

using Program = std::vector<Element>;

// INVALID_ARGUMENT says what is wrong with the pattern.
absl::StatusOr<Program> CompilePattern(std::string_view pattern, std::span<const std::string> tokens);

// The first or last literal that must stand there; empty if the program begins (ends) with something else.
std::string FirstLiteral(const Program& program);
std::string LastLiteral(const Program& program);
bool Has(const Program& program, Element::Kind kind);

struct Section {
  Program begin, call, end;
  std::string separator;         // `between` without white space
  std::string between, before;   // as written
  std::string first_call;        // what a call begins with; "{" for an object
  std::string after_parameters;  // what may follow the last parameter; empty: anything
  std::string end_literal;       // first of `end`
  std::string call_end;          // last of `call`; where a broken call ends. Empty: with the turn
  bool bare = false;
};

// Something that ends ordinary content.
struct Trigger {
  std::string text;
  int section = -1;  // -1: only dropped
};

struct CompiledRow {
  OutputRow row;
  std::vector<std::string> tokens;  // longest first
  std::string think_begin, think_end;
  std::vector<Section> sections;
  std::vector<Trigger> triggers;           // longest first
  std::array<bool, 256> trigger_starts{};  // by first byte
  std::string json_stop;                   // a trigger that begins as JSON may: ends JSON that is not closed
  Program parameter;
  std::string parameter_begin;  // first literal of it

  // Channels, marked.
  std::string start, channel, constrain, message;
  std::vector<std::string> ends;  // of a body: row.channels.ends and `start`
  Program write_content, write_preamble, write_call, write_between;
};

// `tokens`: those of the row's delimiters that are tokens of the tokenizer.
absl::StatusOr<CompiledRow> CompileRow(const OutputRow& row, std::vector<std::string> tokens);

// Texts in the row that look like tokens: <...>, [...] or full-width bars, without white space.
std::vector<std::string> PossibleTokens(const OutputRow& row);

// The longest proper beginning of `literal` that `text` ends with, in bytes.
size_t PartialAtEnd(std::string_view text, std::string_view literal);

}  // namespace ingot::text
