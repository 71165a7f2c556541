// An HTTP/1.1 client that sends a request and returns the server's response. Does not follow redirects. Supports only
// http and https. Verifies certificates against the system's certificates, or against SSL_CERT_FILE and SSL_CERT_DIR.
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
  std::map<std::string, std::string> headers = {};  // names in lowercase
  std::string body = {};
};

// AWS Signature Version 4 for a request, excluding the body.
struct RequestSignature {
  std::string service;  // in CURLOPT_AWS_SIGV4 format: "aws:amz:REGION:s3"
  std::string key_id, secret;
};

struct ClientRequest {
  std::string url = {};  // http:// or https://, without a user name
  std::string method = "GET";
  std::map<std::string, std::string> headers = {};
  std::string_view body = {};  // for POST and PUT; must stay valid until Send returns
  std::string key = {};        // bearer token; empty = none
  std::optional<RequestSignature> signature = {};

  std::string unix_socket = {};  // path of the socket file to connect to instead of the URL's host; empty = none
  // Creates the IPv4 socket; null = the client creates it.
  std::function<absl::StatusOr<base::Fd>()> make_socket = nullptr;
  std::string ca = {};        // PEM file of trusted certificates that replaces SSL_CERT_FILE; empty = none
  bool uses_proxies = false;  // uses http_proxy, https_proxy, all_proxy, and no_proxy, but never for this machine
  bool asks_first = false;    // lets the server reject a body over 1 MiB based on the headers

  std::chrono::milliseconds timeout{0};  // limit for the entire request; 0 = no timeout
  std::chrono::milliseconds connect_timeout{
      0};                                 // limit for name lookup, connection, and TLS; 0 = only `timeout` applies
  std::chrono::seconds stall_timeout{0};  // maximum time without a byte; 0 = no timeout
  int64_t max_answer_bytes = 16 * 1024 * 1024;  // size limit for a body that is not streamed
  // Polled several times per second. Returns true if the caller has abandoned the request.
  std::function<bool()> cancelled = nullptr;
  std::function<void(Answer head)> on_head = {};  // receives the response without a body
  // Receives the body in pieces. May block. Returns false to end the request.
  std::function<bool(std::string_view bytes)> on_bytes = {};
};

// Thread safe. Each request in flight has its own connection, which stays open for this client's later requests.
// Callbacks run on the thread that called Send.
class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends a request and blocks. Returns the server's response regardless of its status. A streamed response has no
  // body. Returns the error of make_socket if it fails. Errors never contain the URL, a key, or a header value:
  //   INVALID_ARGUMENT    the URL or a header is invalid, such as a header with a line break
  //   UNAVAILABLE         there was no response, or it was truncated
  //   DEADLINE_EXCEEDED   a timeout passed
  //   CANCELLED           `cancelled` returned true
  //   PERMISSION_DENIED   the certificate is not trusted
  //   RESOURCE_EXHAUSTED  the response is larger than max_answer_bytes
  absl::StatusOr<Answer> Send(const ClientRequest& request);

 private:
  struct Session;  // libcurl's objects
  std::unique_ptr<Session> TakeSession() ABSL_LOCKS_EXCLUDED(mu_);
  void Return(std::unique_ptr<Session> session) ABSL_LOCKS_EXCLUDED(mu_);

  base::Mutex mu_;
  std::vector<std::unique_ptr<Session>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::http
