// HTTP/1.1 as the server writes it: heads of answers and chunks of streams, by Beast's serializers. They go into one
// string, so that the connection sends everything with one system call. Pure, except for the date.
#pragma once

#include <string>
#include <string_view>

#include "http/handler.h"

namespace ingot::http {

// A whole answer. `version`: 11 = HTTP/1.1, 10 = HTTP/1.0. An answer to HEAD has no body but keeps its Content-Length.
std::string ReplyText(const Reply& reply, unsigned version, bool keep_alive, bool is_head);

// The head of a stream. Without `chunked`, which HTTP/1.0 lacks, the end of the connection ends the stream.
std::string StreamText(const StreamHead& stream, bool chunked, bool keep_alive);

// Appends `data` as one chunk. REQUIRES: `data` is not empty; an empty chunk would be the last one.
void AppendChunk(std::string_view data, std::string& out);
// Appends the empty chunk that ends a stream.
void AppendLastChunk(std::string& out);

}  // namespace ingot::http
