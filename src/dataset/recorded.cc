#include "dataset/recorded.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>

namespace ingot::dataset {
namespace {

namespace json = base::json;

// Returns the parent whose whole path the call continues, or "" if it continues none or only a part of one.
std::string_view WholeParent(const v1::Call& call, const std::map<std::string_view, const v1::Call*>& by_id) {
  if (!call.has_continued_segments()) return "";
  const auto parent = by_id.find(call.parent_call_id());
  const bool whole = parent != by_id.end() && call.continued_segments() == parent->second->sampled_keys_size();
  return whole ? parent->first : std::string_view();
}

absl::StatusOr<int64_t> Place(const json::value& value, int64_t low, int64_t high) {
  if (value.is_int64() && value.get_int64() >= low && value.get_int64() <= high) return value.get_int64();
  if (value.is_uint64() && value.get_uint64() <= static_cast<uint64_t>(high) &&
      static_cast<int64_t>(value.get_uint64()) >= low) {
    return static_cast<int64_t>(value.get_uint64());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(base::PrintJson(value), " is not an integer from ", low, " to ", high));
}

}  // namespace

absl::StatusOr<std::vector<RecordedRow>> RowsOf(const v1::EpisodeTree& tree,
                                                const std::function<bool(const v1::Call&)>& learns) {
  const auto is_learnt = [&learns](const v1::Call& call) {
    return learns == nullptr ? call.weights() == v1::WEIGHTS_FOLLOW : learns(call);
  };
  INGOT_ASSIGN_OR_RETURN(const std::vector<tree::CallPath> paths, tree::CallPathsOf(tree, 0, 0));
  std::map<std::string_view, const v1::Call*> by_id;
  std::map<std::string_view, size_t> index;
  std::set<std::string_view> continued;
  for (int i = 0; i < tree.calls_size(); ++i) {
    by_id[tree.calls(i).call_id()] = &tree.calls(i);
    index[tree.calls(i).call_id()] = static_cast<size_t>(i);
  }
  for (const v1::Call& call : tree.calls()) continued.insert(WholeParent(call, by_id));

  std::vector<RecordedRow> rows;
  std::set<std::string_view> learnt;  // calls
  for (int i = 0; i < tree.calls_size(); ++i) {
    if (continued.contains(tree.calls(i).call_id())) continue;
    RecordedRow row;
    row.ids = paths[static_cast<size_t>(i)].Tokens();
    row.tokenizer = tree.calls(i).tokenizer_fingerprint();
    for (std::string_view id = tree.calls(i).call_id(); !id.empty(); id = WholeParent(*by_id.at(id), by_id)) {
      const tree::CallPath& path = paths[index.at(id)];
      if (!is_learnt(*by_id.at(id)) || path.sampled.empty() || !learnt.insert(id).second) continue;
      row.encoded = row.encoded || by_id.at(id)->encoded();
      row.learnt.emplace_back(path.context.size(), path.size());
    }
    std::reverse(row.learnt.begin(), row.learnt.end());
    if (!row.learnt.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

json::object ToJson(const RecordedRow& row) {
  json::object object;
  object["ids"] = json::array(row.ids.begin(), row.ids.end());
  json::array learnt;
  for (const auto& [begin, end] : row.learnt) learnt.push_back(json::array{begin, end});
  object["learnt"] = std::move(learnt);
  if (!row.tokenizer.empty()) object["tokenizer"] = row.tokenizer;
  if (row.encoded) object["encoded"] = true;
  return object;
}

bool IsRecordedRow(const json::value& object) {
  return base::Find(object, "ids") != nullptr && base::Find(object, "messages") == nullptr;
}

absl::StatusOr<RecordedRow> RecordedRowFromJson(const json::value& object) {
  RecordedRow row;
  const json::value* ids = base::Find(object, "ids");
  if (ids == nullptr || !ids->is_array()) return absl::InvalidArgumentError("'ids' must be a list of token ids");
  for (size_t i = 0; i < ids->as_array().size(); ++i) {
    const absl::StatusOr<int64_t> id = Place(ids->as_array()[i], 0, std::numeric_limits<int32_t>::max());
    if (!id.ok()) return base::Annotate(id.status(), absl::StrCat("ids[", i, "]"));
    row.ids.push_back(static_cast<int32_t>(*id));
  }
  const json::value* learnt = base::Find(object, "learnt");
  if (learnt == nullptr || !learnt->is_array() || learnt->as_array().empty()) {
    return absl::InvalidArgumentError("'learnt' must be a list of at least one range [begin, end) of 'ids'");
  }
  int64_t least = 1;  // the first id has no context that predicts it
  for (size_t i = 0; i < learnt->as_array().size(); ++i) {
    const json::value& range = learnt->as_array()[i];
    const std::string name = absl::StrCat("learnt[", i, "]");
    if (!range.is_array() || range.as_array().size() != 2) {
      return absl::InvalidArgumentError(name + " must be [begin, end]");
    }
    const absl::StatusOr<int64_t> begin = Place(range.as_array()[0], least, std::ssize(row.ids) - 1);
    if (!begin.ok()) return base::Annotate(begin.status(), name + "[0]");
    const absl::StatusOr<int64_t> end = Place(range.as_array()[1], *begin + 1, std::ssize(row.ids));
    if (!end.ok()) return base::Annotate(end.status(), name + "[1]");
    row.learnt.emplace_back(*begin, *end);
    least = *end;
  }
  if (const json::value* tokenizer = base::Find(object, "tokenizer"); tokenizer != nullptr) {
    if (!tokenizer->is_string()) return absl::InvalidArgumentError("'tokenizer' must be a string");
    row.tokenizer = std::string(tokenizer->as_string());
  }
  return row;
}

std::vector<tree::CallPath> ExamplesOf(const RecordedRow& row) {
  std::vector<tree::CallPath> examples;
  tree::TokenPath context;
  int64_t at = 0;
  const auto ids = [&](int64_t begin, int64_t end) {
    return std::vector<int32_t>(row.ids.begin() + begin, row.ids.begin() + end);
  };
  for (const auto& [begin, end] : row.learnt) {
    if (begin > at) context = context.Then(ids(at, begin));
    tree::CallPath& call = examples.emplace_back();
    call.context = context;
    call.sampled = ids(begin, end);
    call.logprobs.assign(call.sampled.size(), 0.0f);
    call.versions.assign(call.sampled.size(), 0);
    call.kv_mixed.assign(call.sampled.size(), 0);
    context = context.Then(call.sampled);
    at = end;
  }
  return examples;
}

}  // namespace ingot::dataset
