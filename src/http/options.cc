#include "http/options.h"

#include "base/config.h"

namespace ingot::http {

void Bind(base::Schema& schema, Options& o) {
  schema.Field("host", &o.host, "address to listen on");
  schema.Field("port", &o.port, "port to listen on; 0: any free port", base::Port());
  schema.Field("io_threads", &o.io_threads, "threads for network I/O", base::Positive());
  schema.Field("max_connections", &o.max_connections,
               "maximum number of connections; a further connection replaces an idle connection of the client with the "
               "most connections, or gets a 503; each uses a file descriptor; 0: 10240, or fewer if the hard limit on "
               "open files is lower",
               base::NotNegative());
  schema.Field("max_body_bytes", &o.max_body_bytes, "maximum size of a request's body; a larger body gets a 413",
               base::Positive());
  schema.Field("max_buffered_bytes", &o.max_buffered_bytes,
               "maximum total size of the bodies of all requests in progress; further requests get a 503",
               base::Positive());
  schema.Field("allow_hosts", &o.allow_hosts,
               "host names accepted at a loopback address, such as a proxy's, in addition to localhost, IP addresses, "
               "and gateway.public_url; \"*\": all");
  schema.Field("allow_origins", &o.allow_origins,
               "origins whose web pages may send requests to the gateway and the page, such as http://localhost:3000; "
               "\"*\": all");
  schema.Field("max_header_bytes", &o.max_header_bytes, "maximum size of a request's headers; larger headers get a 431",
               base::Positive());
  schema.Field("idle_timeout_s", &o.idle_timeout_s, "seconds that a connection may be idle between requests",
               base::Positive());
  schema.Field("head_timeout_s", &o.head_timeout_s,
               "seconds from a new connection or a request's first byte to the end of its headers", base::Positive());
  schema.Field("request_timeout_s", &o.request_timeout_s,
               "seconds from the end of a request's headers to its last byte; also limits the headers",
               base::Positive());
  schema.Field("write_timeout_s", &o.write_timeout_s, "seconds that one write may wait for a slow client",
               base::Positive());
  schema.Field("keepalive_s", &o.keepalive_s,
               "seconds without an event after which a stream gets a comment as a keepalive; 0: no keepalives",
               base::NotNegative());
  schema.Field("shutdown_grace_s", &o.shutdown_grace_s,
               "seconds that requests in progress get to finish when the server stops", base::NotNegative());
}

void BindTls(base::Schema& schema, Options& o) {
  schema.Field("certificate", &o.tls_certificate, "PEM file with the certificate chain; empty: no TLS");
  schema.Field("key", &o.tls_key, "PEM file of the certificate's private key");
  schema.Field("allow_plaintext", &o.allow_plaintext,
               "allow an http.host that other machines can reach without TLS; only for private networks");
}

absl::Status Options::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  if (host.empty()) return absl::InvalidArgumentError("host is empty: set it to an address, such as 127.0.0.1");
  if (!unix_socket.empty() && !tls_certificate.empty()) {
    return absl::InvalidArgumentError("unix_socket: Unix sockets do not use TLS: remove tls_certificate");
  }
  if (max_buffered_bytes < max_body_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("max_buffered_bytes is ", max_buffered_bytes,
                                                   ": it must be at least max_body_bytes, ", max_body_bytes));
  }
  if (tls_certificate.empty() != tls_key.empty()) {
    return absl::InvalidArgumentError("tls: set both certificate and key, or neither");
  }
  return absl::OkStatus();
}

}  // namespace ingot::http
