// Reads one HTTP response as it comes: of a stream of chat completion events the message that they add up to, of
// anything else the body. No more of HTTP than the servers measured here use.
#pragma once

#include <string>
#include <string_view>

namespace ingot::bench {

class SseReader {
 public:
  void Reset() { *this = {}; }
  // False: this is no response.
  bool Push(std::string_view bytes);
  bool done() const { return done_; }
  int status() const { return status_; }
  const std::string& body() const { return body_; }  // of a response that is no stream
  const std::string& content() const { return content_; }
  const std::string& call_id() const { return call_id_; }  // of the last tool call
  const std::string& arguments() const { return arguments_; }

 private:
  bool ReadHead();
  bool ReadChunks();
  bool ReadEvents();

  std::string held_;
  std::string events_;  // without the chunks around them
  bool head_read_ = false, chunked_ = false, done_ = false;
  int status_ = 0;
  size_t length_ = 0;
  std::string body_, content_, call_id_, arguments_;
};

}  // namespace ingot::bench
