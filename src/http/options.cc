#include "http/options.h"

#include "base/config.h"

namespace ingot::http {

void Bind(base::Schema& schema, Options& o) {
  schema.Field("host", &o.host, "address to listen on");
  schema.Field("port", &o.port, "0: a free one", base::Port());
  schema.Field("io_threads", &o.io_threads, "threads for sockets", base::Positive());
  schema.Field("max_connections", &o.max_connections,
               "beyond, a new one replaces an idle one of the client with the most, or gets 503; each takes an open "
               "file; 0: 10240, or as many as the hard limit of open files leaves",
               base::NotNegative());
  schema.Field("max_body_bytes", &o.max_body_bytes, "beyond: 413", base::Positive());
  schema.Field("max_buffered_bytes", &o.max_buffered_bytes, "bodies of all requests in flight; beyond: 503",
               base::Positive());
  schema.Field("allow_hosts", &o.allow_hosts,
               "host names accepted at a loopback address besides localhost, addresses and "
               "gateway.public_url, such as a proxy's; \"*\": every one");
  schema.Field("allow_origins", &o.allow_origins,
               "origins whose web pages may ask gateway and page, such as http://localhost:3000; \"*\": every one");
  schema.Field("max_header_bytes", &o.max_header_bytes, "beyond: 431", base::Positive());
  schema.Field("idle_timeout_s", &o.idle_timeout_s, "seconds of silence between requests", base::Positive());
  schema.Field("head_timeout_s", &o.head_timeout_s,
               "seconds from a request's first byte, or a new connection, to the end of its head", base::Positive());
  schema.Field("request_timeout_s", &o.request_timeout_s,
               "seconds from a request's head to its last byte, and at most of the head", base::Positive());
  schema.Field("write_timeout_s", &o.write_timeout_s, "seconds one write may wait for a slow reader", base::Positive());
  schema.Field("keepalive_s", &o.keepalive_s, "seconds of silence in a stream after which a comment is sent; 0: none",
               base::NotNegative());
  schema.Field("shutdown_grace_s", &o.shutdown_grace_s, "seconds that stopping leaves requests in flight",
               base::NotNegative());
}

void BindTls(base::Schema& schema, Options& o) {
  schema.Field("certificate", &o.tls_certificate, "PEM file, with the certificates that signed it; empty: no TLS");
  schema.Field("key", &o.tls_key, "PEM file of the certificate's private key");
  schema.Field("allow_plaintext", &o.allow_plaintext,
               "allows an http.host that other machines reach without TLS: for private networks");
}

absl::Status Options::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  if (host.empty()) return absl::InvalidArgumentError("host is empty: name an address to listen on, e.g. 127.0.0.1");
  if (!unix_socket.empty() && !tls_certificate.empty()) {
    return absl::InvalidArgumentError("unix_socket: a unix socket does not use TLS; leave out tls_certificate");
  }
  if (max_buffered_bytes < max_body_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("max_buffered_bytes is ", max_buffered_bytes,
                                                   ": it must be at least max_body_bytes, ", max_body_bytes));
  }
  if (tls_certificate.empty() != tls_key.empty()) {
    return absl::InvalidArgumentError("tls: a certificate needs its key, and a key its certificate: name both or none");
  }
  return absl::OkStatus();
}

}  // namespace ingot::http
