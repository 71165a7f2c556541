// Formats HTTP/1.1 response heads and stream chunks using the Beast serializers. The result is one string, so the
// connection sends everything with a single system call. Pure functions, except for the date.
#pragma once

#include <string>
#include <string_view>

#include "http/handler.h"

namespace ingot::http {

// Returns a complete response. `version`: 11 = HTTP/1.1, 10 = HTTP/1.0. The response to HEAD has no body but keeps the
// Content-Length.
std::string ReplyText(const Reply& reply, unsigned version, bool keep_alive, bool is_head);

// Returns a stream's head. If `chunked` is false, as in HTTP/1.0, closing the connection ends the stream.
std::string StreamText(const StreamHead& stream, bool chunked, bool keep_alive);

// Appends `data` as one chunk. REQUIRES: `data` is not empty, because an empty chunk would end the stream.
void AppendChunk(std::string_view data, std::string& out);
// Appends the empty chunk that ends a stream.
void AppendLastChunk(std::string& out);

}  // namespace ingot::http
