#include "execution/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/json_text.h"
#include "base/nearest_key.h"
#include "base/printable.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMaxShown = 60;  // maximum bytes of a client's value to show in an error

std::string Cut(std::string_view text) {
  return absl::StrCat(base::View(text.substr(0, kMaxShown)), text.size() > kMaxShown ? ".." : "");
}

std::string Describe(const value& json) {
  if (json.is_array()) return "a list";
  if (json.is_object()) return "an object";
  if (json.is_string()) return absl::StrCat("the text \"", Cut(std::string_view(json.get_string())), "\"");
  return base::PrintJson(json);
}

// Prints whole numbers in full: 16777216, not 1.67772e+07.
std::string NumberText(double number) {
  const bool is_whole = number == std::floor(number) && std::abs(number) < 1e18;
  return is_whole ? absl::StrCat(static_cast<int64_t>(number)) : absl::StrCat(number);
}

absl::Status CheckNames(const object& json, const std::string& prefix, const std::vector<std::string>& known,
                        const Keys& keys) {
  for (const auto& [name, given] : json) {
    if (given.is_null()) continue;  // null counts as missing
    if (std::find(known.begin(), known.end(), std::string_view(name)) != known.end()) continue;
    std::vector<std::string> all = keys.request;
    for (const std::string& each : keys.limits) all.push_back("limits." + each);
    const std::string key = prefix + Cut(std::string_view(name)), nearest = base::NearestKey(key, all);
    return absl::InvalidArgumentError(absl::StrCat(keys.kind, " has no '", key, "'",
                                                   nearest.empty() ? "" : ": the nearest is '" + nearest + "'",
                                                   "; known fields are ", prefix, absl::StrJoin(known, ", " + prefix)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<value> ParseBody(std::string_view body) {
  if (body.size() / 2 > kMaxValues && base::CountJsonValues(body) > kMaxValues)
    return absl::InvalidArgumentError(absl::StrCat("the body has over ", kMaxValues, " JSON values"));
  return base::ParseJson(body);
}

absl::StatusOr<value> ParseObject(const std::string& body) {
  if (body.empty()) return object();
  INGOT_ASSIGN_OR_RETURN(value request, ParseBody(body));
  if (request.is_object()) return request;
  return absl::InvalidArgumentError(
      absl::StrCat("a request must be a JSON object, but this one is ", Describe(request)));
}

absl::Status CheckKeys(const value& request, const Keys& keys) {
  if (!request.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("a request must be a JSON object, but this one is ", Describe(request)));
  INGOT_RETURN_IF_ERROR(CheckNames(request.get_object(), "", keys.request, keys));
  const value* const limits = base::Find(request, "limits");
  if (limits == nullptr || limits->is_null()) return absl::OkStatus();
  if (!limits->is_object()) return WrongType("limits", *limits, "an object such as {\"" + keys.limits[0] + "\": 10}");
  return CheckNames(limits->get_object(), "limits.", keys.limits, keys);
}

absl::Status WrongType(std::string_view name, const value& found, std::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", base::Shown(name), "' is ", Describe(found), ": it must be ", base::View(wanted)));
}

absl::StatusOr<std::string> TextOf(const value& json, std::string_view name) {
  if (json.is_string()) return std::string(json.get_string());
  return WrongType(name, json, "a string");
}

absl::StatusOr<std::string> TextField(const value& request, std::string_view name, std::string otherwise) {
  const value* const found = base::Find(request, name);
  return found == nullptr || found->is_null() ? std::move(otherwise) : TextOf(*found, name);
}

absl::StatusOr<std::map<std::string, std::string>> MapField(const value& request, std::string_view name) {
  std::map<std::string, std::string> map;
  const value* const found = base::Find(request, name);
  if (found == nullptr || found->is_null()) return map;
  if (!found->is_object()) return WrongType(name, *found, "an object of strings");
  if (found->get_object().size() > kMaxNames) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::View(name), "' has ", found->get_object().size(), " entries: ", kMaxNames, " at most"));
  }
  for (const auto& [key, text] : found->get_object()) {
    INGOT_ASSIGN_OR_RETURN(map[std::string(key)],
                           TextOf(text, absl::StrCat(base::View(name), ".", Cut(std::string_view(key)))));
  }
  return map;
}

absl::StatusOr<bool> FlagField(const value& request, std::string_view name) {
  const value* const found = base::Find(request, name);
  if (found == nullptr || found->is_null()) return false;
  if (found->is_bool()) return found->get_bool();
  return WrongType(name, *found, "true or false");
}

absl::StatusOr<double> LimitField(const value& request, std::string_view name, double otherwise, const Range& range) {
  const value* const limits = base::Find(request, "limits");
  const value* const found = limits == nullptr ? nullptr : base::Find(*limits, name);
  if (found == nullptr || found->is_null()) return otherwise;
  const double number = found->is_number() ? found->to_number<double>() : -1;
  const bool is_in_range = number > 0 && number >= range.least && number <= range.most;
  if (is_in_range && (!range.is_whole || number == std::floor(number))) return number;
  const std::string wanted = absl::StrCat(
      range.is_whole ? "a whole number " : "a number ",
      range.least > 0 ? "from " + NumberText(range.least) + " to " : "above 0, at most ", NumberText(range.most));
  return WrongType(absl::StrCat("limits.", base::View(name)), *found, wanted);
}

}  // namespace ingot::execution
