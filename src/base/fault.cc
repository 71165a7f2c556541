#include "base/fault.h"

#include "base/json.h"
#include "base/printable.h"

namespace ingot::base {
namespace {

constexpr char kPayload[] = "ingot/fault";  // {"field":..,"what":..}, one line

std::string TextAt(const json::value& payload, std::string_view key) {
  const json::value* text = Find(payload, key);
  return text != nullptr && text->is_string() ? std::string(text->get_string()) : "";
}

}  // namespace

absl::Status FaultError(const Fault& given) {
  const Fault fault = {Shown(given.field), CutMessage(given.what)};
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(fault.field, ": ", fault.what));
  status.SetPayload(kPayload, absl::Cord(PrintJson(json::object{{"field", fault.field}, {"what", fault.what}})));
  return status;
}

std::optional<Fault> FaultOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const auto json = ParseJson(std::string(*payload));
  if (!json.ok()) return std::nullopt;
  return Fault{TextAt(*json, "field"), TextAt(*json, "what")};
}

}  // namespace ingot::base
