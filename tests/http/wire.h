// A hand-written client of an HTTP server on 127.0.0.1: each test supplies the bytes of its requests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/status.h"

namespace ingot::http {

// A blocking client connection. Reads give up after 20 s, so that a server that hangs fails its test.
class Wire {
 public:
  explicit Wire(int port) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    timeval timeout{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  // To a socket file.
  explicit Wire(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  Wire(Wire&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), held_(std::move(other.held_)) {}
  ~Wire() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // Closes with a reset, which the other side notices at its next send.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }
  void HalfClose() { shutdown(fd_, SHUT_WR); }
  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  // Makes the system take few bytes before they are read.
  void ShrinkReceiveBuffer() {
    const int bytes = 4096;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  bool Send(const std::string& bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t sent = send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
    }
    return true;
  }
  // False at the end of the stream.
  bool More() {
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    held_.append(bytes, got);
    return true;
  }
  std::string Line() {
    size_t end;
    while ((end = held_.find("\r\n")) == std::string::npos) {
      if (!More()) return std::exchange(held_, {});
    }
    std::string line = held_.substr(0, end);
    held_.erase(0, end + 2);
    return line;
  }
  std::string Bytes(size_t count) {
    while (held_.size() < count && More()) {
    }
    std::string bytes = held_.substr(0, count);
    held_.erase(0, count);
    return bytes;
  }
  std::string Rest() {
    while (More()) {
    }
    return std::exchange(held_, {});
  }

 private:
  int fd_ = -1;
  bool connected_ = false;
  std::string held_;
};

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  base::json::value json() const { return base::ParseJson(body).value(); }
};

inline Response Read(Wire& wire, bool head = false) {
  Response response;
  const std::string line = wire.Line();
  if (line.size() > 12) response.status = std::stoi(line.substr(9, 3));
  for (std::string field = wire.Line(); !field.empty(); field = wire.Line()) {
    const size_t colon = field.find(':');
    std::string name = field.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    response.headers[name] = field.substr(std::min(field.size(), colon + 2));
  }
  if (head || response.status / 100 == 1) return response;
  if (response.headers["transfer-encoding"] == "chunked") {
    while (true) {
      const size_t size = std::stoul(wire.Line(), nullptr, 16);
      response.body += wire.Bytes(size);
      wire.Line();
      if (size == 0) return response;
    }
  }
  response.body = response.headers.contains("content-length")
                      ? wire.Bytes(std::stoul(response.headers["content-length"]))
                      : wire.Rest();
  return response;
}

inline std::string Request(const std::string& method, const std::string& target, const std::string& body,
                           const std::string& key = "", const std::string& more = "") {
  return absl::StrCat(method, " ", target, " HTTP/1.1\r\nHost: localhost\r\n",
                      key.empty() ? "" : "Authorization: Bearer " + key + "\r\n", more, "Content-Length: ", body.size(),
                      "\r\n\r\n", body);
}

}  // namespace ingot::http
