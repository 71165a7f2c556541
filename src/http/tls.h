// Creates a server's TLS context and checks certificate files.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace ingot::http {

// Creates a server context for TLS 1.2 and 1.3 from two PEM files. Returns NOT_FOUND if a file cannot be read, or
// INVALID_ARGUMENT if a file has other content or the key does not match the certificate. Errors name the file.
absl::StatusOr<std::unique_ptr<boost::asio::ssl::context>> NewTlsContext(const std::string& certificate,
                                                                         const std::string& key);

// Checks that `file` contains trusted certificates in PEM format. Returns the same errors as NewTlsContext.
absl::Status CheckTrusted(const std::string& file);

// Returns INVALID_ARGUMENT if the first certificate in `certificate` is not currently valid under the certificates in
// `ca`, either directly or through other certificates in its file. The error gives the reason. REQUIRES: both files
// have already been read (NewTlsContext, CheckTrusted).
absl::Status CheckSigned(const std::string& certificate, const std::string& ca);

}  // namespace ingot::http
