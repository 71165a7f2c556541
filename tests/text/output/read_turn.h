// Parses a sampled turn like the gateway.
#pragma once

#include <span>
#include <string_view>

#include "text/chat/chat.h"
#include "text/output/output_stream.h"

namespace ingot::text {

inline ParsedOutput ReadTurn(const ChatFormat& format, const Tokenizer& tokenizer, std::span<const int32_t> ids,
                             const ParseOptions& options = {}) {
  OutputStream stream(format.output(), options);
  for (const int32_t id : ids) {
    const std::string text = tokenizer.TokenBytes(id);
    stream.Push(text, IsWrittenToken(tokenizer, id, text));
  }
  stream.Finish();
  return stream.message();
}

}  // namespace ingot::text
