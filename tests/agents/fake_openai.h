// An HTTP/1.1 server on 127.0.0.1 that answers from a function, one connection at a time, on its own thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"

namespace ingot::agents {

class FakeOpenAi {
 public:
  // Maps a request's head and JSON body to the raw bytes of the reply. An empty reply closes the connection.
  using Handler = std::function<std::string(const std::string& head, const base::json::value& body)>;

  explicit FakeOpenAi(Handler handler) : handler_(std::move(handler)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 8) != 0) abort();
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeOpenAi() {
    Stop();
    close(listener_);
  }

  // After it, a test may read variables that the handler wrote.
  void Stop() {
    shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_, "/v1"); }
  int connections() const { return connections_; }

  static std::string Reply(const std::string& body, const std::string& status = "200 OK",
                           const std::string& headers = "") {
    return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Length: ", body.size(), "\r\n", headers, "\r\n", body);
  }
  // A chat completion with the message.
  static std::string Completion(const std::string& message_json) {
    return absl::StrCat(
        R"({"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":)", message_json,
        "}]}");
  }

 private:
  void Serve() {
    for (int connection; (connection = accept(listener_, nullptr, nullptr)) >= 0; close(connection)) {
      ++connections_;
      std::string buffer;
      while (AnswerOne(connection, buffer)) continue;
    }
  }

  bool AnswerOne(int connection, std::string& buffer) {
    size_t end, length = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!Receive(connection, buffer)) return false;
    }
    const std::string head = buffer.substr(0, end);
    const size_t field = head.find("Content-Length: ");
    if (field != std::string::npos) length = std::stoul(head.substr(field + 16));
    while (buffer.size() < end + 4 + length) {
      if (!Receive(connection, buffer)) return false;
    }
    const auto body = base::ParseJson(buffer.substr(end + 4, length));
    buffer.erase(0, end + 4 + length);
    const std::string reply = body.ok() ? handler_(head, *body) : Reply("{}", "400 Bad Request");
    if (reply.empty() || send(connection, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return false;
    return reply.find("Connection: close") == std::string::npos;
  }

  static bool Receive(int connection, std::string& buffer) {
    char chunk[4096];
    const ssize_t got = recv(connection, chunk, sizeof(chunk), 0);
    if (got > 0) buffer.append(chunk, got);
    return got > 0;
  }

  const Handler handler_;
  const int listener_;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace ingot::agents
