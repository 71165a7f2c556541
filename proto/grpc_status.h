// Converts between absl::Status and grpc::Status, including messages and payloads. Codes map one to one, with one
// exception: a message that is too large becomes OUT_OF_RANGE. gRPC itself returns RESOURCE_EXHAUSTED, which callers
// would retry. Payloads are sent in the status details as "name=value" lines. Payloads with line breaks are omitted.
#pragma once

#include <grpcpp/support/status.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace ingot::v1 {

inline grpc::Status ToGrpc(const absl::Status& status) {
  std::string details;
  status.ForEachPayload([&](absl::string_view name, const absl::Cord& value) {
    const std::string text(value);
    if (text.find('\n') == std::string::npos) details += std::string(name) + "=" + text + "\n";
  });
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()), details);
}

inline absl::Status FromGrpc(const grpc::Status& status) {
  absl::StatusCode code = static_cast<absl::StatusCode>(status.error_code());
  // The gRPC error message, from the client or the server: "Sent message larger than max (289316708 vs. 268435456)".
  const bool too_large = status.error_message().find("message larger than max") != std::string::npos;
  if (code == absl::StatusCode::kResourceExhausted && too_large) code = absl::StatusCode::kOutOfRange;
  absl::Status converted(code, status.error_message());
  const std::string details = status.error_details();
  for (size_t at = 0; at < details.size();) {
    const size_t end = std::min(details.find('\n', at), details.size());
    const size_t equals = details.find('=', at);
    if (equals < end)
      converted.SetPayload(details.substr(at, equals - at), absl::Cord(details.substr(equals + 1, end - equals - 1)));
    at = end + 1;
  }
  return converted;
}

}  // namespace ingot::v1
