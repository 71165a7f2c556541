// A client of HTTP/1.1: one request, and what the server answers. It follows no redirect, and speaks http and https alone.
// Certificates are verified against the system's, or those of SSL_CERT_FILE and SSL_CERT_DIR.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ingot::http {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};
};

// AWS's Signature 4, of a request without its body.
struct RequestSignature {
  std::string service;  // as CURLOPT_AWS_SIGV4 has it: "aws:amz:REGION:s3"
  std::string key_id, secret;
};

struct ClientRequest {
  std::string url = {};  // http:// or https://, without a user
  std::string method = "GET";
  std::map<std::string, std::string> headers = {};
  std::string_view body = {};  // of POST and PUT; the caller's until Send returns
  std::string key = {};        // bearer; empty = none
  std::optional<RequestSignature> signature = {};

  std::string unix_socket = {};  // path of the socket file that is connected in place of the URL's host; empty = none
  std::function<absl::StatusOr<base::Fd>()> make_socket = nullptr;  // makes the IPv4 socket; null = the client does
  std::string ca = {};        // PEM file of the trusted certificates, in place of SSL_CERT_FILE's; empty = none
  bool uses_proxies = false;  // those of http_proxy, https_proxy, all_proxy and no_proxy; never to this machine
  bool asks_first = false;    // a server may refuse a body of over 1 MiB by its headers

  std::chrono::milliseconds timeout{0};           // of all phases together; 0 = none
  std::chrono::milliseconds connect_timeout{0};   // of the name, the connection and TLS; 0 = `timeout` alone
  std::chrono::seconds stall_timeout{0};          // without a byte; 0 = none
  int64_t max_answer_bytes = 16 * 1024 * 1024;    // of a body that is not streamed
  std::function<bool()> cancelled = nullptr;      // asked several times a second: nobody waits for the answer any more
  std::function<void(Answer head)> on_head = {};  // has no body yet
  std::function<bool(std::string_view bytes)> on_bytes = {};  // streams the body; may block; false ends the request
};

// Thread safe. Each request in flight has a connection of its own, which stays open for a later one of this client. Callbacks
// run on the thread of Send.
class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Blocks. The server's answer, whatever its status; where its bytes are streamed it has no body. INVALID_ARGUMENT: no such URL,
  // or a header that is none, such as one with a line break. UNAVAILABLE: nobody answered, or the answer was cut.
  // DEADLINE_EXCEEDED: a timeout. CANCELLED. PERMISSION_DENIED: the certificate is not trusted. RESOURCE_EXHAUSTED: the answer is
  // larger than it may be. An error of make_socket. No error has the URL, a key or a header.
  absl::StatusOr<Answer> Send(const ClientRequest& request);

 private:
  struct Session;  // libcurl's objects
  std::unique_ptr<Session> TakeSession() ABSL_LOCKS_EXCLUDED(mu_);
  void Return(std::unique_ptr<Session> session) ABSL_LOCKS_EXCLUDED(mu_);

  base::Mutex mu_;
  std::vector<std::unique_ptr<Session>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::http
