#include "gateway/api/role_name.h"

#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {

std::string TakeRole(std::string& key) {
  constexpr std::string_view kMark = ":role=";
  const size_t at = key.find(kMark);
  if (at == std::string::npos) return "";
  std::string role = key.substr(at + kMark.size());
  key.resize(at);
  return role;
}

void ReadRole(const Headers& headers, Fields& body, GatewayRequest& request) {
  request.role = base::Printable(headers.Get(kRoleHeader), {.max_bytes = kMaxName});
  const base::json::object* metadata = body.Object("metadata");
  const base::json::value* role = metadata == nullptr ? nullptr : metadata->if_contains("ingot_role");
  if (role != nullptr && role->is_string() && !role->get_string().empty()) {
    request.role = base::CutText(role->get_string(), kMaxName);
  }
}

}  // namespace ingot::gateway
