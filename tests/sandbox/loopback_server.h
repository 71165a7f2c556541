// An HTTP server on the machine's loopback interface, for tests of what reaches it. Each connection gets one answer.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

class LoopbackServer {
 public:
  explicit LoopbackServer(std::string body)
      : body_(std::move(body)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size);
    listen(listener_.get(), 16);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~LoopbackServer() {
    shutdown(listener_.get(), SHUT_RDWR);  // accept returns
    thread_.join();
  }

  int port() const { return port_; }
  std::string host() const { return absl::StrCat("127.0.0.1:", port_); }
  int connections() const { return connections_; }
  std::string last_head() const {
    base::MutexLock lock(mu_);
    return last_head_;
  }

 private:
  void Serve() {
    while (true) {
      const Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      ++connections_;
      std::string head;
      char buffer[4096];
      while (head.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(client.get(), buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        head.append(buffer, static_cast<size_t>(got));
      }
      {
        base::MutexLock lock(mu_);
        last_head_ = head;
      }
      const std::string answer =
          absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", body_.size(), "\r\nConnection: close\r\n\r\n", body_);
      [[maybe_unused]] const ssize_t sent = send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  const std::string body_;
  const Fd listener_;
  int port_ = 0;
  std::atomic<int> connections_{0};
  mutable base::Mutex mu_;
  std::string last_head_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace ingot::sandbox
