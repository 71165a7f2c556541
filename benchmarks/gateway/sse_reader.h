// Reads one HTTP response as it arrives: from a stream of events the complete answer, from anything else the body.
// Supports only the parts of HTTP that the servers measured here use.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api.h"

namespace ingot::bench {

class SseReader {
 public:
  explicit SseReader(const Api& api) : api_(&api) {}
  void Reset() { *this = SseReader(*api_); }
  // Keeps a stream's text for stream().
  void KeepEvents() { keep_ = true; }
  // False: this is not a response.
  bool Push(std::string_view bytes);
  bool done() const { return done_; }
  int status() const { return status_; }
  const std::string& body() const { return body_; }  // of a response that is not a stream
  const Answer& answer() const { return answer_; }
  const std::string& stream() const { return stream_; }  // without the chunks around it

 private:
  bool ReadHead();
  bool ReadChunks();
  bool ReadEvents();

  const Api* api_;
  std::string held_;
  std::string events_;  // bytes not read yet
  std::string stream_;
  bool keep_ = false, head_read_ = false, chunked_ = false, done_ = false;
  int status_ = 0;
  size_t length_ = 0;
  std::string body_;
  Answer answer_;
};

}  // namespace ingot::bench
