// Options of an HTTP server. Free of sockets, so that a configuration schema can bind to these fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::http {

struct Options {
  std::string host = "127.0.0.1";  // IP address to listen on; "0.0.0.0" = every one
  int32_t port = 8080;             // 0 = the system chooses; Server::port() returns it
  std::string unix_socket;         // path of a socket file only for this user, instead of host and port; empty = none
  int32_t io_threads = 1;          // threads for sockets; >= 1
  // Beyond this, a new connection takes the place of an idle one, or one that has not sent a whole head, from the
  // client with the most connections (http/places.h). If there is none, it gets a 503; up to 64 at a time surely get
  // it. Each connection takes a file descriptor. 0 = 10240, or as many as the hard limit of open files leaves.
  int32_t max_connections = 0;
  int64_t max_body_bytes = 64 * 1024 * 1024;      // of one request; beyond: 413
  int64_t max_buffered_bytes = int64_t{1} << 30;  // of all bodies whose answers have not ended; beyond: 503
  int32_t max_header_bytes = 64 * 1024;           // of a request's head; beyond: 431
  double idle_timeout_s = 120;                    // seconds a kept-alive connection may stay silent between requests
  double head_timeout_s = 20;                     // seconds from a first byte, or a new connection, to the head's end
  double request_timeout_s = 60;                  // seconds of the body, and at most of the head; beyond: 408
  double write_timeout_s = 60;   // seconds one write may wait for a slow reader; beyond: it counts as gone
  double keepalive_s = 15;       // seconds of silence in a stream after which its filler is sent. 0 = never
  double shutdown_grace_s = 5;   // seconds that Stop leaves requests in flight before it closes their connections
  std::string tls_certificate;   // PEM file of the certificate and its chain. Empty = plain text
  std::string tls_key;           // PEM file of the certificate's private key
  bool allow_plaintext = false;  // `host` may be an address that other machines reach, without TLS
  // allow_hosts: names that a server on a loopback address answers to, in addition to localhost and addresses; "*" =
  // all. allow_origins: origins, such as "http://localhost:3000", whose pages may send requests to any server; "*" =
  // all (http/site_check.h).
  std::vector<std::string> allow_hosts, allow_origins;

  absl::Status Validate() const;
};

}  // namespace ingot::http
