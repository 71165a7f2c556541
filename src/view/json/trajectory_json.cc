#include "view/json/trajectory_json.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/utf8.h"
#include "tree/contexts.h"
#include "tree/episode_return.h"
#include "tree/episode_time.h"
#include "tree/render.h"
#include "view/json/alternatives_json.h"
#include "view/runs/origins.h"
#include "view/safe_text.h"

namespace ingot::view {
namespace {

using base::json::array;
using base::json::object;

constexpr size_t kMaxDelivered = 64 * 1024;  // limit in bytes on a delivered message

double Seconds(int64_t from, int64_t to) {
  return from == 0 || to == 0 ? 0 : static_cast<double>(std::max<int64_t>(0, to - from)) * 1e-9;
}

// Returns `value` with every string made safe.
base::json::value Safe(const base::json::value& value) {
  if (value.is_string()) return base::json::value(SafeText(std::string_view(value.get_string())));
  if (value.is_array()) {
    array safe;
    for (const base::json::value& element : value.get_array()) safe.push_back(Safe(element));
    return safe;
  }
  if (!value.is_object()) return value;
  object safe;
  for (const auto& [key, field] : value.get_object()) safe[SafeText(std::string_view(key))] = Safe(field);
  return safe;
}

base::json::value Delivered(const std::string& text) {
  if (text.empty() || text.size() > kMaxDelivered) return nullptr;
  const absl::StatusOr<base::json::value> message = base::ParseJson(text);
  return message.ok() ? Safe(*message) : base::json::value(nullptr);
}

std::string Cut(const std::string& text, size_t bytes) {
  return text.size() <= bytes ? SafeText(text) : SafeText(base::CutText(text, bytes)) + " …";
}

int64_t SampledTokens(const v1::EpisodeTree& tree, const v1::Call& call) {
  int64_t tokens = 0;
  for (const std::string& key : call.sampled_keys()) {
    const auto found = tree.segments().find(absl::BytesToHexString(key));
    if (found != tree.segments().end()) tokens += found->second.token_ids_size();
  }
  return tokens;
}

const char* NameOf(OriginKind kind) {
  return kind == OriginKind::kSummary ? "summary" : kind == OriginKind::kSubAgent ? "sub-agent" : "";
}

object CallJson(const v1::EpisodeTree& tree, const v1::Call& call, const std::map<std::string, int>& sequences) {
  const v1::CallTimes& times = call.times();
  const auto parent = sequences.find(call.parent_call_id());
  const auto& rewards = tree::CallRewardsOf(tree.episode());
  const auto reward = rewards.find(call.call_id());
  return {{"call", call.sequence()},
          {"id", SafeText(call.call_id())},
          {"parent", parent == sequences.end() ? -1 : parent->second},
          {"branch", SafeText(call.branch())},
          {"parent_branch", SafeText(call.parent_branch())},
          {"role", SafeText(call.role())},
          {"fork_cause", SafeText(call.fork_cause())},
          {"after_trunk", !call.parent_call_id().empty() && parent == sequences.end()},
          {"finish", tree::FinishName(call.finish())},
          {"model", SafeText(call.model())},
          {"trained", call.weights() == v1::WEIGHTS_FOLLOW},
          {"malformed", call.tool_call_malformed()},
          {"temperature", call.sampling().temperature()},
          {"context_tokens", call.context_tokens()},
          {"cached_tokens", call.cached_tokens()},
          {"sampled_tokens", SampledTokens(tree, call)},
          {"started_s", Seconds(tree.episode().opened_unix_ns(), times.arrival_unix_ns())},
          {"queue_s", Seconds(times.queued_unix_ns(), times.first_token_unix_ns())},
          {"decode_s", Seconds(times.first_token_unix_ns(), times.end_unix_ns())},
          {"ended_s", Seconds(tree.episode().opened_unix_ns(), times.end_unix_ns())},
          {"reward", reward == rewards.end() ? 0.0 : reward->second},
          {"delivered", Delivered(call.delivered_json())}};
}

array NodesJson(const std::vector<tree::TreeNode>& nodes, const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer,
                size_t text_bytes) {
  const auto sequences = [&](const std::vector<int32_t>& indices) {
    array list;
    for (const int32_t index : indices) list.push_back(tree.calls(index).sequence());
    return list;
  };
  array list;
  for (const tree::TreeNode& node : nodes) {
    const bool sampled = node.source == v1::SOURCE_SAMPLED;
    // A token rarely decodes to less than one byte, so only the beginning of a long run is decoded.
    const size_t most = std::min(node.tokens.size(), text_bytes + 8);
    const std::string text = tokenizer.DecodeText(std::span(node.tokens).first(most), false);
    object fields{{"parent", node.parent}, {"depth", node.depth},           {"tokens", node.tokens.size()},
                  {"sampled", sampled},    {"text", Cut(text, text_bytes)}, {"ends", sequences(node.calls_ended)}};
    if (sampled) {
      fields["logprob"] = node.mean_logprob;
      fields["first_version"] = node.first_version;
      fields["last_version"] = node.last_version;
      fields["kv_mixed"] = node.kv_mixed;
      fields["calls"] = sequences(node.sampled_by);
    }
    list.push_back(std::move(fields));
  }
  return list;
}

}  // namespace

object EpisodeJson(const v1::Episode& episode) {
  object fields{{"id", SafeText(episode.episode_id())},
                {"kind", episode.purpose() == v1::PURPOSE_EVAL ? "eval" : "train"},
                {"group", episode.ref().group_id()},
                {"sample", episode.ref().sample_index()},
                {"attempt", episode.ref().attempt()},
                {"state", tree::StateName(episode.state())},
                {"reward", tree::ReturnOf(episode)},
                {"seconds", tree::SecondsOf(episode)},
                {"opened", static_cast<double>(episode.opened_unix_ns()) * 1e-9},
                {"task", SafeText(episode.task().task_id())},
                {"domain", SafeText(episode.task().domain())},
                {"scaffold", SafeText(episode.scaffold())},
                {"cause", SafeText(episode.cause())},
                {"detail", SafeText(episode.detail())},
                {"version", episode.admitted_version()},
                {"pinned", episode.pinned_version()},
                {"isolation", SafeText(episode.sandbox_isolation())},
                {"trunk", SafeText(episode.fork().episode_id())}};
  object signals;
  for (const auto& [name, value] : episode.signals()) signals[SafeText(name)] = value;
  fields["signals"] = std::move(signals);
  array terms;
  for (const v1::TermValue& term : episode.grade().terms()) {
    terms.push_back(object{{"term", SafeText(term.term())},
                           {"weight", term.weight()},
                           {"value", tree::ValueOf(term)},
                           {"detail", SafeText(term.detail())}});
  }
  fields["terms"] = std::move(terms);
  return fields;
}

absl::StatusOr<object> EpisodeTreeJson(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer,
                                       const std::vector<double>& advantages, size_t text_bytes) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<tree::TreeNode> nodes, tree::DescribeTree(tree));
  object fields = EpisodeJson(tree.episode());
  fields["payload"] = SafeText(tree.episode().task().payload_json());
  object facts;
  for (const auto& [name, value] : tree.episode().facts()) facts[SafeText(name)] = SafeText(value);
  fields["facts"] = std::move(facts);
  std::map<std::string, int> sequences;
  for (const v1::Call& call : tree.calls()) sequences.emplace(call.call_id(), call.sequence());
  const std::vector<Origin> origins = OriginsOf(tree, tokenizer);
  array calls;
  int64_t sampled = 0, unique = 0;
  for (const v1::Call& call : tree.calls()) {
    object one = CallJson(tree, call, sequences);
    one["origin"] = NameOf(origins[calls.size()].kind);
    one["origin_call"] = origins[calls.size()].call;
    if (calls.size() < advantages.size()) one["advantage"] = advantages[calls.size()];
    sampled += one["sampled_tokens"].to_number<int64_t>();
    calls.push_back(std::move(one));
  }
  for (const tree::TreeNode& node : nodes) unique += std::ssize(node.tokens);
  fields["calls"] = std::move(calls);
  fields["sampled_tokens"] = sampled;
  fields["tree_tokens"] = unique;
  fields["nodes"] = NodesJson(nodes, tree, tokenizer, text_bytes);
  return fields;
}

absl::StatusOr<std::string> CallTokensJson(const v1::EpisodeTree& tree, int call,
                                           std::shared_ptr<const text::Tokenizer> tokenizer) {
  const v1::Call& wanted = tree.calls(call);
  const tree::Contexts contexts(tree.calls());
  INGOT_ASSIGN_OR_RETURN(std::vector<std::string> keys, contexts.KeysOf(wanted));
  keys.insert(keys.end(), wanted.sampled_keys().begin(), wanted.sampled_keys().end());
  INGOT_ASSIGN_OR_RETURN(const std::vector<const v1::Call*> chain, contexts.ChainOf(wanted));
  std::map<std::string_view, int> sampled_by;
  for (const v1::Call* link : chain) {
    for (const std::string& key : link->sampled_keys()) sampled_by[key] = link->sequence();
  }
  text::DecodeStream decode(tokenizer, /*skip_special=*/false);
  std::string texts, ids, runs, logprobs, versions;
  AlternativesJson alternatives(*tokenizer);
  const auto comma = [](std::string& out) {
    if (!out.empty()) out += ',';
  };
  for (const std::string& key : keys) {
    const auto found = tree.segments().find(absl::BytesToHexString(key));
    if (found == tree.segments().end()) {
      return absl::DataLossError(absl::StrCat("a segment of call ", wanted.sequence(), " is missing"));
    }
    const v1::Segment& segment = found->second;
    const bool sampled = segment.source() == v1::SOURCE_SAMPLED;
    for (const int32_t id : segment.token_ids()) {
      comma(texts);
      base::AppendJsonString(SafeText(decode.Push(id)), texts);
      comma(ids);
      absl::StrAppend(&ids, id);
    }
    comma(runs);
    const auto by = sampled_by.find(key);
    absl::StrAppend(&runs, "{\"count\":", segment.token_ids_size(), ",\"sampled\":", sampled ? "true" : "false",
                    ",\"call\":", sampled && by != sampled_by.end() ? by->second : -1);
    if (const int32_t each = alternatives.Append(segment); each > 0) {
      absl::StrAppend(&runs, ",\"alternatives\":", each);
    }
    runs += '}';
    for (const float logprob : segment.logprobs()) {
      comma(logprobs);
      AppendNumber(logprob, logprobs);
    }
    for (const v1::VersionRun& run : segment.versions()) {
      comma(versions);
      absl::StrAppend(&versions, "[", run.version(), ",", run.count(), ",", run.kv_mixed() ? 1 : 0, "]");
    }
  }
  return absl::StrCat("{\"text\":[", texts, "],\"id\":[", ids, "],\"runs\":[", runs, "],\"logprob\":[", logprobs,
                      "],\"versions\":[", versions, "]", alternatives.Members(), "}");
}

bool ContainsText(const v1::EpisodeTree& tree, const text::Tokenizer& tokenizer, const std::string& wanted) {
  const std::string lower = absl::AsciiStrToLower(wanted);
  const auto contains = [&](const std::string& text) {
    return absl::AsciiStrToLower(text).find(lower) != std::string::npos;
  };
  for (const v1::Call& call : tree.calls()) {
    if (contains(call.delivered_json())) return true;
  }
  for (const auto& [key, segment] : tree.segments()) {
    const std::vector<int32_t> ids(segment.token_ids().begin(), segment.token_ids().end());
    if (contains(tokenizer.DecodeText(ids, false))) return true;
  }
  return false;
}

}  // namespace ingot::view
