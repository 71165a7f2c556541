// Implements SchemaCompiler for objects whose properties are written as Python keyword arguments: path='a.txt',
// count=3.
#include <algorithm>

#include "grammar/chars.h"
#include "grammar/schema_compiler.h"

namespace ingot::grammar {

namespace {

constexpr size_t kLongestKeyword = 256;  // bytes

bool IsKeyword(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80) != 0;
  };
  return !name.empty() && name.size() <= kLongestKeyword && std::all_of(name.begin(), name.end(), is_word);
}

}  // namespace

absl::Status SchemaCompiler::CompileKeywords(int32_t from, int32_t to) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<FlatSchema> alternatives, flattener_.Flatten(root_, "#"));
  for (const FlatSchema& flat : alternatives) {
    if (flat.contains("enum")) return SchemaFault("#", "an enum of objects cannot be written as keyword arguments");
    INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(flat, "#"));
    if (std::find(types.begin(), types.end(), "object") == types.end()) continue;
    INGOT_RETURN_IF_ERROR(EmitMembers({-1, true, flat, "#"}, Keys::kKeywords, from, to, to));
  }
  return BuildPending();
}

absl::Status SchemaCompiler::AddKeyword(int32_t from, int32_t to, const std::string& key, const std::string& path) {
  if (!IsKeyword(key)) return SchemaFault(path, "this name cannot be written as a keyword argument");
  return AddMark(from, to, key + "=", false, false);
}

absl::Status SchemaCompiler::AddOtherKeywords(int32_t from, int32_t to, const std::vector<Property>& known) {
  INGOT_ASSIGN_OR_RETURN(const LeafPtr names, OtherNames("^[A-Za-z_][A-Za-z0-9_]{0,63}$", known));
  INGOT_ASSIGN_OR_RETURN(const int32_t equals, builder_.AddState());
  INGOT_RETURN_IF_ERROR(builder_.AddLeaf(from, equals, names));
  return AddMark(equals, to, "=", false, false);
}

}  // namespace ingot::grammar
