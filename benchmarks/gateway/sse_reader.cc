#include "gateway/sse_reader.h"

#include <cstdlib>

#include "base/json.h"

namespace ingot::bench {

bool SseReader::Push(std::string_view bytes) {
  held_ += bytes;
  if (!head_read_) {
    if (held_.find("\r\n\r\n") == std::string::npos) return true;
    if (!ReadHead()) return false;
  }
  if (chunked_) return ReadChunks();
  done_ = held_.size() >= length_;
  if (done_) body_ = held_.substr(0, length_);
  return true;
}

bool SseReader::ReadHead() {
  const size_t end = held_.find("\r\n\r\n");
  const std::string head = held_.substr(0, end);
  held_.erase(0, end + 4);
  if (head.size() < 12 || !head.starts_with("HTTP/1.1 ")) return false;
  status_ = std::atoi(head.c_str() + 9);
  chunked_ = head.find("Transfer-Encoding: chunked") != std::string::npos;
  const size_t length = head.find("Content-Length: ");
  if (!chunked_ && length == std::string::npos) return false;
  if (!chunked_) length_ = std::strtoul(head.c_str() + length + 16, nullptr, 10);
  head_read_ = true;
  return true;
}

bool SseReader::ReadChunks() {
  size_t at = 0;
  while (!done_) {
    const size_t line = held_.find("\r\n", at);
    if (line == std::string::npos) break;
    const size_t size = std::strtoul(held_.c_str() + at, nullptr, 16);
    if (held_.size() < line + 2 + size + 2) break;
    events_.append(held_, line + 2, size);
    if (keep_) stream_.append(held_, line + 2, size);
    at = line + 2 + size + 2;
    done_ = size == 0;
  }
  held_.erase(0, at);
  return ReadEvents();
}

bool SseReader::ReadEvents() {
  constexpr std::string_view kData = "data: ";
  size_t at = 0;
  for (size_t end; (end = events_.find("\n\n", at)) != std::string::npos; at = end + 2) {
    std::string_view event = std::string_view(events_).substr(at, end - at);
    if (const size_t name_end = event.find('\n'); event.starts_with("event: ") && name_end != event.npos) {
      event.remove_prefix(name_end + 1);
    }
    if (!event.starts_with(kData) || event == "data: [DONE]") continue;
    const auto json = base::ParseJson(event.substr(kData.size()));
    if (!json.ok() || !api_->Read(*json, answer_)) return false;
  }
  events_.erase(0, at);
  return true;
}

}  // namespace ingot::bench
