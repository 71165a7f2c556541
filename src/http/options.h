// Defines the HTTP server options. This header does not include sockets. The Bind functions declare each key with its
// meaning and bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::http {

struct Options {
  std::string host = "127.0.0.1";  // an IP address; "0.0.0.0" = all addresses
  int32_t port = 8080;             // 0 = chosen by the system; Server::port() returns it
  // Path of a socket file that only this user can access. It replaces host and port; empty = none.
  std::string unix_socket;
  int32_t io_threads = 1;
  // At the limit, a new connection may replace one that has not sent a complete head (http/places.h), and otherwise
  // gets a 503. The 503 is guaranteed for up to 64 connections at a time.
  int32_t max_connections = 0;
  int64_t max_body_bytes = 64 * 1024 * 1024;
  int64_t max_buffered_bytes = int64_t{1} << 30;  // at least max_body_bytes
  int32_t max_header_bytes = 64 * 1024;
  double idle_timeout_s = 120;
  double head_timeout_s = 20;
  double request_timeout_s = 60;  // exceeded = 408
  double write_timeout_s = 60;    // exceeded = the client is considered gone
  double keepalive_s = 15;
  double shutdown_grace_s = 5;
  std::string tls_certificate;
  std::string tls_key;
  bool allow_plaintext = false;
  // `allow_hosts` lists the host names that a server on a loopback address accepts besides localhost and IP addresses.
  // `allow_origins` lists the origins whose pages may send requests to any server (http/site_check.h).
  std::vector<std::string> allow_hosts, allow_origins;

  // Returns INVALID_ARGUMENT if an option is invalid. The error names the option.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, Options& options);
// Declares the keys in the TLS section.
void BindTls(base::Schema& schema, Options& options);

}  // namespace ingot::http
