// Options of an HTTP server, without sockets. Their Bind functions declare each key with its meaning and bounds.
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
  std::string host = "127.0.0.1";  // an IP address; "0.0.0.0" = every one
  int32_t port = 8080;             // 0 = the system chooses; Server::port() returns it
  std::string unix_socket;         // path of a socket file only for this user, instead of host and port; empty = none
  int32_t io_threads = 1;
  // A new connection may also replace one that has not sent a whole head (http/places.h). If there is none to replace,
  // it gets a 503; up to 64 at a time surely get it.
  int32_t max_connections = 0;
  int64_t max_body_bytes = 64 * 1024 * 1024;
  int64_t max_buffered_bytes = int64_t{1} << 30;  // at least max_body_bytes
  int32_t max_header_bytes = 64 * 1024;
  double idle_timeout_s = 120;
  double head_timeout_s = 20;
  double request_timeout_s = 60;  // beyond: 408
  double write_timeout_s = 60;    // beyond: the reader counts as gone
  double keepalive_s = 15;
  double shutdown_grace_s = 5;
  std::string tls_certificate;
  std::string tls_key;
  bool allow_plaintext = false;
  // allow_hosts: names that a server on a loopback address answers to, in addition to localhost and addresses.
  // allow_origins: origins whose pages may send requests to any server (http/site_check.h).
  std::vector<std::string> allow_hosts, allow_origins;

  // INVALID_ARGUMENT names the option.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, Options& options);
// The keys in the section of TLS.
void BindTls(base::Schema& schema, Options& options);

}  // namespace ingot::http
