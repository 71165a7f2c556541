#include "sandbox/template.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/printable.h"

namespace ingot::sandbox {
namespace {

constexpr std::string_view kAsJson = "json:";

std::string Spelled(const std::string& known) {
  return known.back() == '.' ? absl::StrCat("${", known, "FIELD}") : absl::StrCat("${", known, "}");
}

absl::Status CheckName(std::string_view written, const std::vector<std::string>& known) {
  const std::string name(written.substr(written.starts_with(kAsJson) ? kAsJson.size() : 0));
  for (const std::string& candidate : known) {
    const bool prefix = candidate.back() == '.';
    if (prefix ? name.size() > candidate.size() && name.starts_with(candidate) : name == candidate) {
      return absl::OkStatus();
    }
  }
  std::vector<std::string> spelled;
  spelled.reserve(known.size());
  for (const std::string& candidate : known) spelled.push_back(Spelled(candidate));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown variable ${", base::Shown(name), "}: known variables are ", absl::StrJoin(spelled, ", "),
                   "; the prefix json: inserts the value as quoted JSON (write a literal ${ as $${)"));
}

std::string FieldNames(const base::JsonText& value) {
  std::vector<std::string> names;
  for (const auto& [name, field] : value.fields()) names.push_back(name);
  return names.empty() ? "it has no fields" : absl::StrCat("its fields are ", absl::StrJoin(names, ", "));
}

absl::StatusOr<std::string> Lookup(const std::string& written, const Variables& variables) {
  const bool as_json = written.starts_with(kAsJson);
  const std::string name = written.substr(as_json ? kAsJson.size() : 0);
  if (const auto text = variables.text.find(name); text != variables.text.end()) {
    return as_json ? base::PrintJson(base::json::value(base::json::string(text->second))) : text->second;
  }
  const std::string root = name.substr(0, name.find('.'));
  const auto json = variables.json.find(root);
  if (json == variables.json.end()) {
    return absl::InternalError(absl::StrCat("variable ${", name, "} was allowed but is not supplied here"));
  }
  if (root == name) return json->second.Compact();
  const auto value = json->second.At(std::string_view(name).substr(root.size() + 1));
  if (!value.has_value()) {
    return absl::InvalidArgumentError(base::CutMessage(
        absl::StrCat("the ", root, " has no value at ${", base::Shown(name), "}: ", FieldNames(json->second))));
  }
  return as_json ? value->Compact() : AsText(*value);
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
            absl::StrCat("'${' at character ", at + 1, " has no closing '}' (write a literal ${ as $${)"));
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

bool Template::Uses(std::string_view root) const {
  return std::any_of(pieces_.begin(), pieces_.end(), [root](const Piece& piece) {
    std::string_view name = piece.text;
    if (name.starts_with(kAsJson)) name.remove_prefix(kAsJson.size());
    return piece.is_variable && name.substr(0, name.find('.')) == root;
  });
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

std::string AsText(const base::JsonText& value) { return value.is_string() ? value.string() : value.Compact(); }

}  // namespace ingot::sandbox
