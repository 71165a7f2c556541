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
    at = line + 2 + size + 2;
    done_ = size == 0;
  }
  held_.erase(0, at);
  return ReadEvents();
}

bool SseReader::ReadEvents() {
  size_t at = 0;
  for (size_t end; (end = events_.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string_view event = std::string_view(events_).substr(at, end - at);
    if (!event.starts_with("data: ") || event == "data: [DONE]") continue;
    const auto json = base::ParseJson(event.substr(6));
    if (!json.ok()) return false;
    const auto* choices = base::Find(*json, "choices");
    if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return false;
    const auto* delta = base::Find(choices->get_array()[0], "delta");
    if (delta == nullptr) return false;
    const auto* text = base::Find(*delta, "content");
    if (text != nullptr && text->is_string()) content_ += std::string_view(text->get_string());
    const auto* calls = base::Find(*delta, "tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (const auto& call : calls->get_array()) {
      if (const auto* id = base::Find(call, "id")) call_id_ = std::string(id->as_string());
      const auto* function = base::Find(call, "function");
      const auto* arguments = function == nullptr ? nullptr : base::Find(*function, "arguments");
      if (arguments != nullptr) arguments_ += std::string_view(arguments->as_string());
    }
  }
  events_.erase(0, at);
  return true;
}

}  // namespace ingot::bench
