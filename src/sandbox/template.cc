#include "sandbox/template.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_join.h"

namespace ingot::sandbox {
namespace {

std::string Spelled(const std::string& known) {
  return known.back() == '.' ? absl::StrCat("${", known, "FIELD}") : absl::StrCat("${", known, "}");
}

absl::Status CheckName(const std::string& name, const std::vector<std::string>& known) {
  for (const std::string& candidate : known) {
    const bool prefix = candidate.back() == '.';
    if (prefix ? name.size() > candidate.size() && name.starts_with(candidate) : name == candidate) {
      return absl::OkStatus();
    }
  }
  std::vector<std::string> spelled;
  spelled.reserve(known.size());
  for (const std::string& candidate : known) spelled.push_back(Spelled(candidate));
  return absl::InvalidArgumentError(absl::StrCat("unknown variable ${", name, "}: known are ",
                                                 absl::StrJoin(spelled, ", "), " (a literal ${ is written $${)"));
}

std::string FieldNames(const base::json::value& value) {
  std::vector<std::string> names;
  if (value.is_object()) {
    for (const auto& field : value.get_object()) names.emplace_back(field.key());
  }
  return names.empty() ? "it has no fields" : absl::StrCat("its fields are ", absl::StrJoin(names, ", "));
}

absl::StatusOr<std::string> Lookup(const std::string& name, const Variables& variables) {
  if (const auto text = variables.text.find(name); text != variables.text.end()) return text->second;
  const std::string root = name.substr(0, name.find('.'));
  const auto json = variables.json.find(root);
  if (json == variables.json.end()) {
    return absl::InternalError(absl::StrCat("variable ${", name, "} was allowed but is not supplied here"));
  }
  if (root == name) return base::PrintJson(*json->second);
  const base::json::value* value = FindPath(*json->second, name.substr(root.size() + 1));
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", root, " has nothing at ${", name, "}: ", FieldNames(*json->second)));
  }
  return AsText(*value);
}

}  // namespace

absl::StatusOr<Template> Template::Parse(std::string_view text, const std::vector<std::string>& known) {
  Template result;
  std::string literal;
  size_t at = 0;
  while (at < text.size()) {
    if (text.substr(at).starts_with("$${")) {
      literal += "${";
      at += 3;
    } else if (text.substr(at).starts_with("${")) {
      const size_t end = text.find('}', at);
      if (end == std::string_view::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat("'${' at character ", at + 1, " has no '}' after it (a literal ${ is written $${)"));
      }
      std::string name(text.substr(at + 2, end - at - 2));
      INGOT_RETURN_IF_ERROR(CheckName(name, known));
      if (!literal.empty()) result.pieces_.push_back({false, std::exchange(literal, "")});
      result.pieces_.push_back({true, std::move(name)});
      at = end + 1;
    } else {
      literal += text[at++];
    }
  }
  if (!literal.empty()) result.pieces_.push_back({false, std::move(literal)});
  return result;
}

absl::StatusOr<std::string> Template::Render(const Variables& variables) const {
  std::string text;
  for (const Piece& piece : pieces_) {
    if (!piece.is_variable) {
      text += piece.text;
      continue;
    }
    INGOT_ASSIGN_OR_RETURN(const std::string value, Lookup(piece.text, variables));
    text += value;
  }
  return text;
}

const base::json::value* FindPath(const base::json::value& value, std::string_view path) {
  const base::json::value* at = &value;
  while (at != nullptr) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (at->is_array()) {
      size_t index = 0;
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
      const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
      at = whole && index < at->get_array().size() ? &at->get_array()[index] : nullptr;
    } else {
      at = base::Find(*at, key);
    }
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

std::string AsText(const base::json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : base::PrintJson(value);
}

}  // namespace ingot::sandbox
