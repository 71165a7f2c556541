// HTTP/1.1 as the server writes it: heads of answers and chunks of streams. Pure, but for the date.
#pragma once

#include <string>
#include <string_view>

#include "gateway/http_api.h"

namespace ingot::gateway {

// The headers of every answer. With both names that vendors' clients know a request's id by.
std::string CommonHeaders(std::string_view request_id);

// A whole answer; `version` 11 is HTTP/1.1. Without its body to HEAD.
std::string ReplyText(const HttpReply& reply, std::string_view request_id, unsigned version, bool keep_alive,
                      bool head);

// What stands before a stream of events, which is chunked but in HTTP/1.0.
std::string StreamHead(std::string_view request_id, bool chunked, bool keep_alive);

// `data` as one chunk, behind what `out` holds. REQUIRES: there is some, an empty chunk would be the last one.
void AppendChunk(std::string_view data, std::string& out);

}  // namespace ingot::gateway
