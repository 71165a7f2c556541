// UTF-8 (RFC 3629) of texts from outside. A string field of a message holds valid UTF-8 alone: protobuf writes other
// bytes and then refuses to read them. Each text that an agent, a task, a client or a server chose is cut by CutText and
// made valid by ToUtf8 before it gets into such a field. base/printable.h makes it fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ingot::base {

bool IsValidUtf8(std::string_view text);

// Cuts a stream of bytes at whole UTF-8 characters; the bytes of an unfinished character wait for the next Push.
// Invalid bytes become U+FFFD as soon as they cannot be completed.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  std::string Flush();
  bool holds() const { return !held_.empty(); }  // an unfinished character waits

 private:
  std::string held_;
};

// The whole of `bytes` through a Utf8Stream: always valid UTF-8.
std::string ToUtf8(std::string_view bytes);

// The first `max_bytes` of valid UTF-8 at most, cut behind a whole character.
std::string CutText(std::string_view text, size_t max_bytes);

}  // namespace ingot::base
