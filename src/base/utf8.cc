#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace ingot::base {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// For a lead byte, the number of bytes and the range of the second byte. Length 0 = not a lead byte. Excludes overlong
// forms, surrogates, and code points above U+10FFFF (Unicode, table 3-7).
struct Lead {
  int length;
  uint8_t low;
  uint8_t high;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// The number of bytes at the start of `text` that belong to one character, and the number that the character requires,
// which is 0 if no character begins there. REQUIRES: `text` is not empty.
struct Sequence {
  size_t has, needs;
};

Sequence FirstSequence(std::string_view text) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  const size_t needs = lead.length, most = std::min(needs, text.size());
  size_t has = 1;
  for (; has < most; ++has) {
    const auto next = static_cast<uint8_t>(text[has]);
    if (has == 1 ? next < lead.low || next > lead.high : !IsContinuation(text[has])) break;
  }
  return {has, needs};
}

}  // namespace

CodePoint FirstCharacter(std::string_view text) {
  if (text.empty()) return {};
  const Sequence first = FirstSequence(text);
  return first.has == first.needs ? DecodeAt(text, 0) : CodePoint{};
}

char32_t NextCharacter(std::string_view text, size_t& at) {
  const CodePoint c = FirstCharacter(text.substr(at));
  at += c.size == 0 ? 1 : c.size;
  return c.size == 0 ? 0xFFFD : c.value;
}

char32_t PreviousCharacter(std::string_view text, size_t& at) {
  at = StartOf(text, at - 1);
  size_t after = at;
  return NextCharacter(text, after);
}

void AppendUtf8(uint32_t c, std::string& out) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | c >> 6), tail(0)};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  } else {
    out += {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
  }
}

size_t CountCharacters(std::string_view text) {
  // Counts eight bytes at a time in eight lanes because every template string is processed here.
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr size_t kLane = 255;
  size_t continuations = 0, at = 0;
  while (text.size() - at >= sizeof(uint64_t)) {
    uint64_t lanes = 0;
    const size_t words = std::min((text.size() - at) / sizeof(uint64_t), kLane);
    for (size_t i = 0; i < words; ++i, at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, sizeof(word));
      lanes += (word >> 7) & ~(word >> 6) & kOnes;
    }
    for (; lanes != 0; lanes >>= 8) continuations += lanes & kLane;
  }
  for (; at < text.size(); ++at) continuations += IsContinuation(text[at]);
  return text.size() - continuations;
}

std::string Utf8Stream::Push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    bytes = joined;
    held_.clear();
  }
  std::string out;
  out.reserve(bytes.size());
  size_t at = 0;
  while (at < bytes.size()) {
    const Sequence next = FirstSequence(bytes.substr(at));
    if (next.has == next.needs) {
      out += bytes.substr(at, next.has);
    } else if (next.needs > 0 && at + next.has == bytes.size()) {
      held_ = bytes.substr(at);
      break;
    } else {
      out += kReplacement;  // one for the entire ill-formed sequence, as in Python's decoder and browsers
    }
    at += next.has;
  }
  return out;
}

std::string Utf8Stream::Flush() {
  if (held_.empty()) return "";
  held_.clear();
  return std::string(kReplacement);
}

bool IsValidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word;
    if (text.size() - at >= 8 && (std::memcpy(&word, text.data() + at, 8), (word & 0x8080808080808080ull) == 0)) {
      at += 8;
      continue;
    }
    const Sequence next = FirstSequence(text.substr(at));
    if (next.has != next.needs) return false;
    at += next.has;
  }
  return true;
}

std::string ToUtf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.Push(bytes);
  out += stream.Flush();
  return out;
}

std::string CutText(std::string_view text, size_t max_bytes) {
  return std::string(text.substr(0, StartOf(text, max_bytes)));
}

}  // namespace ingot::base
