#include "http/options.h"

#include "base/bounds.h"

namespace ingot::http {

absl::Status Options::Validate() const {
  if (host.empty()) return absl::InvalidArgumentError("host is empty: name an address to listen on, e.g. 127.0.0.1");
  if (!unix_socket.empty() && !tls_certificate.empty()) {
    return absl::InvalidArgumentError("unix_socket: a unix socket does not use TLS; leave out tls_certificate");
  }
  if (port < 0 || port > 65535)
    return absl::InvalidArgumentError(absl::StrCat("port is ", port, ": it must be in [0, 65535]"));
  INGOT_RETURN_IF_ERROR(base::Positive("io_threads", io_threads));
  INGOT_RETURN_IF_ERROR(base::NotNegative("max_connections", max_connections));
  INGOT_RETURN_IF_ERROR(base::Positive("max_body_bytes", static_cast<double>(max_body_bytes)));
  INGOT_RETURN_IF_ERROR(base::Positive("max_header_bytes", max_header_bytes));
  if (max_buffered_bytes < max_body_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("max_buffered_bytes is ", max_buffered_bytes,
                                                   ": it must be at least max_body_bytes, ", max_body_bytes));
  }
  if (tls_certificate.empty() != tls_key.empty()) {
    return absl::InvalidArgumentError("tls: a certificate needs its key, and a key its certificate: name both or none");
  }
  INGOT_RETURN_IF_ERROR(base::Positive("idle_timeout_s", idle_timeout_s));
  INGOT_RETURN_IF_ERROR(base::Positive("head_timeout_s", head_timeout_s));
  INGOT_RETURN_IF_ERROR(base::Positive("request_timeout_s", request_timeout_s));
  INGOT_RETURN_IF_ERROR(base::Positive("write_timeout_s", write_timeout_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("keepalive_s", keepalive_s));
  INGOT_RETURN_IF_ERROR(base::NotNegative("shutdown_grace_s", shutdown_grace_s));
  return absl::OkStatus();
}

}  // namespace ingot::http
