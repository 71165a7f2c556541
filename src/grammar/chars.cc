#include "grammar/chars.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/utf8.h"

namespace ingot::grammar {

namespace {

constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// How a spelling escapes its quotation mark, backslashes, and control characters.
struct Escapes {
  std::string_view name;
  char mark;
  std::string_view letters, means;  // the letter of each short escape, and the character that it represents
  std::string_view hex;             // the text before the two digits of a hexadecimal escape
};

const Escapes& EscapesOf(Spelling spelling) {
  static constexpr Escapes kJson{"json", '"', "bfnrt\"\\", "\b\f\n\r\t\"\\", "u00"};
  static constexpr Escapes kSingle{"python '", '\'', "nrt'\\", "\n\r\t'\\", "x"};
  static constexpr Escapes kDouble{"python \"", '"', "nrt\"\\", "\n\r\t\"\\", "x"};
  return spelling == Spelling::kSingleQuoted ? kSingle : spelling == Spelling::kDoubleQuoted ? kDouble : kJson;
}

CodePoints RawIn(const Escapes& escapes) {
  const uint32_t mark = static_cast<unsigned char>(escapes.mark);
  return {{0x20, mark - 1}, {mark + 1, '\\' - 1}, {'\\' + 1, kMaxCodePoint}};
}

void AddTails(Nfa& nfa, int32_t from, int32_t to, int count) {
  for (; count > 1; --count) {
    const int32_t next = nfa.AddState();
    nfa.AddByte(from, 0x80, 0xBF, next);
    from = next;
  }
  nfa.AddByte(from, 0x80, 0xBF, to);
}

// Adds the encodings from `low` to `high`, which have the same length, in three groups: those with the first lead byte,
// those with the last lead byte, and all between.
void AddSpan(Nfa& nfa, int32_t from, int32_t to, std::string_view low, std::string_view high) {
  int first = static_cast<uint8_t>(low[0]), last = static_cast<uint8_t>(high[0]);
  if (low.size() == 1) return nfa.AddByte(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), to);
  const size_t tails = low.size() - 1;
  const std::string least(tails, '\x80'), most(tails, '\xBF');
  const auto branch = [&](int lead, std::string_view l, std::string_view h) {
    const int32_t next = nfa.AddState();
    nfa.AddByte(from, static_cast<uint8_t>(lead), static_cast<uint8_t>(lead), next);
    AddSpan(nfa, next, to, l, h);
  };
  if (first == last) return branch(first, low.substr(1), high.substr(1));
  if (low.substr(1) != least) branch(first++, low.substr(1), most);
  if (high.substr(1) != most) branch(last--, least, high.substr(1));
  if (first > last) return;
  const int32_t next = nfa.AddState();
  nfa.AddByte(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), next);
  AddTails(nfa, next, to, static_cast<int>(tails));
}

void AddInterval(Nfa& nfa, int32_t from, int32_t to, Interval interval) {
  for (const Interval length : {Interval{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kMaxCodePoint}}) {
    const uint32_t low = std::max(interval.low, length.low), high = std::min(interval.high, length.high);
    if (low > high) continue;
    std::string first, last;
    base::AppendUtf8(low, first);
    base::AppendUtf8(high, last);
    AddSpan(nfa, from, to, first, last);
  }
}

bool IsEscaped(uint32_t c, const Escapes& escapes) {
  return c < 0x20 || c == static_cast<uint32_t>(escapes.mark) || c == '\\';
}

char HexDigit(uint32_t value) { return "0123456789abcdef"[value & 15]; }

void AddHexDigit(Nfa& nfa, int32_t from, int32_t to) {
  nfa.AddByte(from, '0', '9', to);
  nfa.AddByte(from, 'a', 'f', to);
  nfa.AddByte(from, 'A', 'F', to);
}

// Adds four hexadecimal digits. The masks list the allowed first and second digits (bit d = digit d).
void AddHex4(Nfa& nfa, int32_t from, int32_t to, uint32_t first, uint32_t second) {
  const auto add = [&](uint32_t mask) {
    const int32_t next = nfa.AddState();
    for (uint32_t d = 0; d < 16; ++d) {
      if (!(mask >> d & 1)) continue;
      const auto lower = static_cast<uint8_t>(HexDigit(d));
      nfa.AddByte(from, lower, lower, next);
      if (d >= 10) nfa.AddByte(from, lower - 32, lower - 32, next);
    }
    from = next;
  };
  add(first);
  add(second);
  const int32_t last = nfa.AddState();
  AddHexDigit(nfa, from, last);
  AddHexDigit(nfa, last, to);
}

}  // namespace

CodePoints Normalize(const CodePoints& set) {
  CodePoints split;
  for (const Interval& i : set) {
    if (i.low > i.high) continue;
    if (i.low < kFirstSurrogate) split.push_back({i.low, std::min(i.high, kFirstSurrogate - 1)});
    if (i.high > kLastSurrogate) {
      split.push_back({std::max(i.low, kLastSurrogate + 1), std::min(i.high, kMaxCodePoint)});
    }
  }
  std::sort(split.begin(), split.end(), [](const Interval& a, const Interval& b) { return a.low < b.low; });
  CodePoints out;
  for (const Interval& i : split) {
    if (!out.empty() && i.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, i.high);
    } else {
      out.push_back(i);
    }
  }
  return out;
}

CodePoints Complement(const CodePoints& set) {
  CodePoints out;
  uint32_t next = 0;
  for (const Interval& i : set) {
    if (i.low > next) out.push_back({next, i.low - 1});
    next = i.high + 1;
  }
  if (next <= kMaxCodePoint) out.push_back({next, kMaxCodePoint});
  return Normalize(out);
}

CodePoints AllCodePoints() { return Complement({}); }

void AddUtf8(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set) {
  for (const Interval& interval : set) AddInterval(nfa, from, to, interval);
}

char QuotationMark(Spelling spelling) { return EscapesOf(spelling).mark; }

std::string_view SpellingName(Spelling spelling) {
  return spelling == Spelling::kRaw ? "raw" : EscapesOf(spelling).name;
}

void AddCharacter(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set, Spelling spelling) {
  if (spelling == Spelling::kRaw) return AddUtf8(nfa, from, to, set);
  const Escapes& escapes = EscapesOf(spelling);
  const CodePoints raw_allowed = RawIn(escapes);
  // By the first hexadecimal digit, the second digits (bit d = digit d) of characters without a short escape.
  uint32_t low_digits[2] = {0, 0};
  int32_t escape = -1;
  for (const Interval& interval : set) {
    for (const Interval& raw : raw_allowed) {
      const Interval both{std::max(interval.low, raw.low), std::min(interval.high, raw.high)};
      if (both.low <= both.high) AddInterval(nfa, from, to, both);
    }
    for (uint32_t c = interval.low; c <= std::min<uint32_t>(interval.high, '\\'); ++c) {
      if (!IsEscaped(c, escapes)) continue;
      if (escape < 0) nfa.AddByte(from, '\\', '\\', escape = nfa.AddState());
      if (const size_t at = escapes.means.find(static_cast<char>(c)); at != std::string_view::npos) {
        const auto letter = static_cast<uint8_t>(escapes.letters[at]);
        nfa.AddByte(escape, letter, letter, to);
      } else {
        low_digits[c >> 4] |= 1u << (c & 15);
      }
    }
  }
  for (int high = 0; high < 2; ++high) {
    if (low_digits[high] == 0) continue;
    const int32_t digit = nfa.AddText(nfa.AddText(escape, escapes.hex), high == 0 ? "0" : "1");
    for (uint32_t d = 0; d < 16; ++d) {
      if (low_digits[high] >> d & 1) nfa.AddByte(digit, HexDigit(d), HexDigit(d), to);
    }
  }
}

std::string QuoteText(std::string_view text, Spelling spelling) {
  const Escapes& escapes = EscapesOf(spelling);
  std::string out(1, escapes.mark);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (!IsEscaped(byte, escapes)) {
      out += c;
    } else if (const size_t at = escapes.means.find(c); at != std::string_view::npos) {
      out += '\\';
      out += escapes.letters[at];
    } else {
      out += '\\';
      out += escapes.hex;
      out += HexDigit(byte >> 4);
      out += HexDigit(byte);
    }
  }
  return out + escapes.mark;
}

absl::StatusOr<Dfa> StringDfa(Spelling spelling, Budget& budget) {
  const Escapes& escapes = EscapesOf(spelling);
  const auto mark = static_cast<uint8_t>(escapes.mark);
  Nfa nfa;
  const int32_t start = nfa.AddState(), between = nfa.AddState(), end = nfa.AddState();
  nfa.AddByte(start, mark, mark, between);
  nfa.AddByte(between, mark, mark, end);
  AddUtf8(nfa, between, between, Normalize(RawIn(escapes)));
  const int32_t escape = nfa.AddState(), u = nfa.AddState();
  nfa.AddByte(between, '\\', '\\', escape);
  for (const char c : escapes.letters) nfa.AddByte(escape, static_cast<uint8_t>(c), static_cast<uint8_t>(c), between);
  nfa.AddByte(escape, 'u', 'u', u);
  // Second digits of D...: 0-7 are not surrogates, kHigh (8-b) begins a surrogate pair, kLow (c-f) ends it.
  constexpr uint32_t kAny = 0xFFFF, kD = 1u << 13, kHigh = 0x0F00, kLow = 0xF000;
  AddHex4(nfa, u, between, kAny & ~kD, kAny);
  AddHex4(nfa, u, between, kD, 0x00FF);
  if (spelling == Spelling::kJson) {
    nfa.AddByte(escape, '/', '/', between);
    const int32_t high = nfa.AddState();
    AddHex4(nfa, u, high, kD, kHigh);
    AddHex4(nfa, nfa.AddText(high, "\\u"), between, kD, kLow);
    return Determinize(nfa, start, end, budget);
  }
  const auto other_mark = static_cast<uint8_t>('"' + '\'' - escapes.mark);
  nfa.AddByte(escape, other_mark, other_mark, between);
  const int32_t digit = nfa.AddState();
  AddHexDigit(nfa, nfa.AddText(escape, "x"), digit);
  AddHexDigit(nfa, digit, between);
  // \U and eight digits, up to 0010FFFF.
  const int32_t zeros = nfa.AddText(escape, "U00"), plane = nfa.AddText(zeros, "0"), after = nfa.AddState();
  const int32_t basic = nfa.AddText(plane, "0");
  AddHex4(nfa, basic, between, kAny & ~kD, kAny);
  AddHex4(nfa, basic, between, kD, 0x00FF);
  nfa.AddByte(plane, '1', '9', after);
  nfa.AddByte(plane, 'a', 'f', after);
  nfa.AddByte(plane, 'A', 'F', after);
  nfa.AddEpsilon(nfa.AddText(zeros, "10"), after);
  AddHex4(nfa, after, between, kAny, kAny);
  return Determinize(nfa, start, end, budget);
}

int32_t AddWhitespace(Nfa& nfa, int32_t from) {
  const int32_t after = nfa.AddState();
  nfa.AddEpsilon(from, after);
  nfa.AddByte(from, ' ', ' ', after);
  int32_t line = nfa.AddState();
  nfa.AddByte(from, '\n', '\n', line);
  for (int i = 0; i < kMaxIndent; ++i) {
    nfa.AddEpsilon(line, after);
    const int32_t next = nfa.AddState();
    nfa.AddByte(line, ' ', ' ', next);
    line = next;
  }
  nfa.AddEpsilon(line, after);
  return after;
}

namespace {

// The position within a string in canonical spelling: outside the quotation marks, after a backslash, or between two
// characters. A positive place is the number of bytes until the character ends.
constexpr int kOutside = -2, kEscape = -1, kBetween = 0;

int PlaceAfter(int place, uint8_t byte, char mark) {
  if (place == kOutside) return kBetween;
  if (place == kEscape) return byte == 'u' ? 4 : byte == 'x' ? 2 : kBetween;
  if (place > kBetween) return place - 1;
  if (byte == static_cast<uint8_t>(mark)) return kOutside;
  if (byte == '\\') return kEscape;
  return byte < 0xC0 ? kBetween : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
}

}  // namespace

CharacterCounts CountCharacters(const Dfa& quoted, Spelling spelling) {
  CharacterCounts counts{std::vector<uint8_t>(quoted.size(), 0), std::vector<uint32_t>(quoted.size(), UINT32_MAX)};
  if (quoted.empty()) return counts;
  // Each state has only one place, because different bytes may follow inside a character and after one.
  constexpr int kUnknown = -3;
  const char mark = QuotationMark(spelling);
  std::vector<int> places(quoted.size(), kUnknown);
  std::vector<std::vector<int32_t>> before(quoted.size());
  std::vector<int32_t> queue = {0};
  places[0] = kOutside;
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t from = queue[i];
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t to = quoted.Next(from, static_cast<uint8_t>(byte));
      if (to < 0) continue;
      if (before[to].empty() || before[to].back() != from) before[to].push_back(from);
      if (places[to] != kUnknown) continue;
      places[to] = PlaceAfter(places[from], static_cast<uint8_t>(byte), mark);
      counts.between[to] = places[to] == kBetween;
      queue.push_back(to);
    }
  }
  // Walks backward from the ends. A step to a state between two characters completes a character, except for the
  // opening quotation mark.
  std::deque<int32_t> nearest;
  for (int32_t s = 0; s < quoted.size(); ++s) {
    if (!quoted.accepting[s]) continue;
    counts.finish[s] = 0;
    nearest.push_back(s);
  }
  while (!nearest.empty()) {
    const int32_t to = nearest.front();
    nearest.pop_front();
    for (const int32_t from : before[to]) {
      const uint32_t step = counts.between[to] && from != 0 ? 1 : 0;
      if (counts.finish[to] + step >= counts.finish[from]) continue;
      counts.finish[from] = counts.finish[to] + step;
      step == 0 ? nearest.push_front(from) : nearest.push_back(from);
    }
  }
  return counts;
}

}  // namespace ingot::grammar
