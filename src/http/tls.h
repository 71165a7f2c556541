// The TLS context of a server: its certificate, its key, and the versions it speaks.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace ingot::http {

// A context for the server side of TLS 1.2 and 1.3, from two PEM files. NOT_FOUND: a file cannot be read.
// INVALID_ARGUMENT: a file has other content, or the key belongs to another certificate. Errors name the file.
absl::StatusOr<std::unique_ptr<boost::asio::ssl::context>> NewTlsContext(const std::string& certificate,
                                                                         const std::string& key);

// Checks that `file` holds trusted certificates in PEM. Errors as above.
absl::Status CheckTrusted(const std::string& file);

// INVALID_ARGUMENT: the first certificate in `certificate` is not valid now under the certificates of `ca`, directly or
// through the others in its file; says why. REQUIRES: both files were read before (NewTlsContext, CheckTrusted).
absl::Status CheckSigned(const std::string& certificate, const std::string& ca);

}  // namespace ingot::http
