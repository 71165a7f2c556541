// An HTTP/1.1 client: sends one request and returns the server's answer. It follows no redirects and speaks only http
// and https. It verifies certificates against the system's, or against SSL_CERT_FILE and SSL_CERT_DIR.
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

// AWS Signature Version 4 of a request, without the body.
struct RequestSignature {
  std::string service;  // as CURLOPT_AWS_SIGV4 has it: "aws:amz:REGION:s3"
  std::string key_id, secret;
};

struct ClientRequest {
  std::string url = {};  // http:// or https://, without a user
  std::string method = "GET";
  std::map<std::string, std::string> headers = {};
  std::string_view body = {};  // for POST and PUT; must live until Send returns
  std::string key = {};        // bearer; empty = none
  std::optional<RequestSignature> signature = {};

  std::string unix_socket = {};  // path of a socket file to connect to instead of the URL's host; empty = none
  std::function<absl::StatusOr<base::Fd>()> make_socket = nullptr;  // makes the IPv4 socket; null = the client does
  std::string ca = {};        // PEM file of trusted certificates, instead of SSL_CERT_FILE's; empty = none
  bool uses_proxies = false;  // reads http_proxy, https_proxy, all_proxy and no_proxy; never for this machine
  bool asks_first = false;    // lets the server reject a body over 1 MiB from its headers

  std::chrono::milliseconds timeout{0};           // for all phases together; 0 = none
  std::chrono::milliseconds connect_timeout{0};   // for name lookup, connection and TLS; 0 = only `timeout`
  std::chrono::seconds stall_timeout{0};          // without a byte; 0 = none
  int64_t max_answer_bytes = 16 * 1024 * 1024;    // of a body that is not streamed
  std::function<bool()> cancelled = nullptr;      // polled several times a second; true = the caller gave up waiting
  std::function<void(Answer head)> on_head = {};  // has no body yet
  std::function<bool(std::string_view bytes)> on_bytes = {};  // streams the body; may block; false ends the request
};

// Thread safe. Each request in flight has its own connection, which stays open for a later request of this client.
// Callbacks run on the thread that called Send.
class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Blocks. Returns the server's answer, whatever its status; a streamed answer has no body. INVALID_ARGUMENT: the URL
  // or a header is invalid, such as a header with a line break. UNAVAILABLE: no answer, or the answer was cut off.
  // DEADLINE_EXCEEDED: a timeout. CANCELLED. PERMISSION_DENIED: the certificate is not trusted. RESOURCE_EXHAUSTED: the
  // answer is larger than max_answer_bytes. An error of make_socket. No error shows the URL, a key or a header's value.
  absl::StatusOr<Answer> Send(const ClientRequest& request);

 private:
  struct Session;  // libcurl's objects
  std::unique_ptr<Session> TakeSession() ABSL_LOCKS_EXCLUDED(mu_);
  void Return(std::unique_ptr<Session> session) ABSL_LOCKS_EXCLUDED(mu_);

  base::Mutex mu_;
  std::vector<std::unique_ptr<Session>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::http
