#include "gateway/api/fields.h"

#include <cmath>
#include <utility>

#include "gateway/api/api_error.h"

namespace ingot::gateway {

using base::json::value;

Fields::Fields(const value& json, std::string path) : object_(json.if_object()), path_(std::move(path)) {}

std::string Fields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", base::View(name));
}

const value* Fields::Get(std::string_view name) const {
  if (object_ == nullptr) return nullptr;
  const value* field = object_->if_contains(base::json::string_view(name.data(), name.size()));
  return field == nullptr || field->is_null() ? nullptr : field;
}

const base::json::object* Fields::Object(std::string_view name) {
  const value* field = Get(name);
  if (field != nullptr && !field->is_object()) Wrong(name, "an object");
  return field == nullptr ? nullptr : field->if_object();
}

const base::json::array* Fields::List(std::string_view name, size_t max) {
  const value* field = Get(name);
  if (field == nullptr) return nullptr;
  const base::json::array* list = field->if_array();
  if (list != nullptr && list->size() <= max) return list;
  Wrong(name, absl::StrCat("a list of at most ", max, " entries"));
  return nullptr;
}

void Fields::Read(std::string_view name, bool& out) {
  const value* field = Get(name);
  if (field == nullptr) return;
  if (!field->is_bool()) return Wrong(name, "true or false");
  out = field->get_bool();
}

void Fields::Read(std::string_view name, std::string& out) {
  const value* field = Get(name);
  if (field == nullptr) return;
  if (!field->is_string()) return Wrong(name, "a string");
  out = std::string(field->get_string());
}

void Fields::Read(std::string_view name, double low, double high, std::optional<double>& out) {
  const value* field = Get(name);
  if (field == nullptr) return;
  const double number = field->is_number() ? field->to_number<double>() : std::nan("");
  if (!(number >= low && number <= high)) return Wrong(name, absl::StrCat("a number in [", low, ", ", high, "]"));
  out = number;
}

void Fields::Read(std::string_view name, int64_t low, int64_t high, std::optional<int64_t>& out) {
  const value* field = Get(name);
  if (field == nullptr) return;
  boost::system::error_code error;
  const int64_t number = field->is_number() ? field->to_number<int64_t>(error) : 0;
  if (!field->is_number() || error || number < low || number > high) {
    return Wrong(name, absl::StrCat("a whole number in [", low, ", ", high, "]"));
  }
  out = number;
}

void Fields::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Fields::Wrong(std::string_view name, std::string_view wanted) {
  const std::string path = PathOf(name);
  Fail(BadRequest(path, absl::StrCat("'", path, "' must be ", base::View(wanted))));
}

}  // namespace ingot::gateway
