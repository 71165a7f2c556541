#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace ingot::base {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// For a lead byte: the number of bytes and the range of the second byte; length 0 = no lead byte. Excludes overlong
// forms, surrogates and code points beyond U+10FFFF (Unicode, table 3-7).
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

}  // namespace

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
    const Lead lead = LeadOf(static_cast<uint8_t>(bytes[at]));
    if (lead.length == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    int have = 1;
    while (have < lead.length && at + have < bytes.size()) {
      const auto next = static_cast<uint8_t>(bytes[at + have]);
      const bool good = have == 1 ? next >= lead.low && next <= lead.high : next >= 0x80 && next <= 0xBF;
      if (!good) break;
      ++have;
    }
    if (have == lead.length) {
      out += bytes.substr(at, have);
    } else if (at + have == bytes.size()) {
      held_ = bytes.substr(at);
      break;
    } else {
      out += kReplacement;  // one for the whole ill-formed sequence, like Python's decoder and browsers
    }
    at += have;
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
    const Lead lead = LeadOf(static_cast<uint8_t>(text[at]));
    if (lead.length == 0 || text.size() - at < static_cast<size_t>(lead.length)) return false;
    for (int i = 1; i < lead.length; ++i) {
      const auto next = static_cast<uint8_t>(text[at + i]);
      if (i == 1 ? next < lead.low || next > lead.high : next < 0x80 || next > 0xBF) return false;
    }
    at += lead.length;
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
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

}  // namespace ingot::base
