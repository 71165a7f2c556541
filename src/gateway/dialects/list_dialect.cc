#include "gateway/dialects/list_dialect.h"

#include <utility>

#include "gateway/request_fields.h"

namespace ingot::gateway {

absl::StatusOr<GatewayRequest> ListDialect::Parse(const RawRequest& raw) const {
  INGOT_ASSIGN_OR_RETURN(const base::json::value json, ParseBody(raw.body));
  GatewayRequest request;
  Fields body(json);
  INGOT_RETURN_IF_ERROR(ReadFields(raw.headers, body, request));
  const base::json::array* list = ListIn(body);
  INGOT_RETURN_IF_ERROR(body.status());
  if (list != nullptr) INGOT_RETURN_IF_ERROR(ReadElements(*list, request));
  INGOT_RETURN_IF_ERROR(Finish(request));
  return request;
}

absl::StatusOr<GatewayRequest> ListDialect::ParseChange(const GatewayRequest& known, size_t kept,
                                                        const base::json::array& added, const RawRequest* rest) const {
  if (kept + added.size() > max_) return absl::OutOfRangeError("too many elements");
  std::optional<GatewayRequest> request;
  if (rest == nullptr) {
    request = known.Beginning(kept);
  } else {
    INGOT_ASSIGN_OR_RETURN(const base::json::value json, ParseBody(rest->body));
    GatewayRequest read;
    Fields body(json);
    INGOT_RETURN_IF_ERROR(ReadFields(rest->headers, body, read));
    if (read.TakeBeginning(known, kept)) request = std::move(read);
  }
  if (!request.has_value()) return absl::UnavailableError("elements that are read with others");
  INGOT_RETURN_IF_ERROR(ReadElements(added, *request));
  INGOT_RETURN_IF_ERROR(Finish(*request));
  return *std::move(request);
}

}  // namespace ingot::gateway
