// The certificate that the HTTP server shows. Internal to the folder.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace ingot::gateway {

// TLS 1.2 and 1.3, server side. NOT_FOUND: a file cannot be read; INVALID_ARGUMENT: it is not what it should be, or the
// key is not the certificate's. Errors name the file.
absl::StatusOr<std::unique_ptr<boost::asio::ssl::context>> NewTlsContext(const std::string& certificate,
                                                                         const std::string& key);

}  // namespace ingot::gateway
