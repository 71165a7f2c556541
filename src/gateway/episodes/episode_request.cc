#include "gateway/episodes/episode_request.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "base/printable.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {
namespace {

using base::json::value;

constexpr size_t kMaxName = 256;  // bytes
constexpr size_t kMaxMetadata = 64 * 1024;

absl::StatusOr<std::string> StringField(const value& body, const char* name) {
  const value* field = base::Find(body, name);
  if (field == nullptr || field->is_null()) return std::string();
  if (!field->is_string()) return BadRequest(name, absl::StrCat("'", name, "' must be a string"));
  return std::string(field->get_string());
}

// Returns a numeric field in the object `body`, or 0 if it is missing.
absl::StatusOr<double> NumberField(const value& body, const char* name) {
  const value* field = base::Find(body, name);
  if (field == nullptr || field->is_null()) return 0;
  if (!field->is_number()) return BadRequest(name, absl::StrCat("'", name, "' must be a number"));
  return field->to_number<double>();
}

// Returns 400 if the object `body` has a field that is not in `known`. Otherwise, a misspelled name would be ignored.
// `of` is the prefix for its field names in errors.
absl::Status CheckFields(const value& body, std::initializer_list<std::string_view> known, const std::string& of = "") {
  for (const auto& field : body.get_object()) {
    const std::string_view name(field.key().data(), field.key().size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string path = of + base::Printable(name, {.max_bytes = 80});
    std::string names;
    for (const std::string_view one : known) absl::StrAppend(&names, names.empty() ? "" : ", ", base::View(one));
    return BadRequest(path, absl::StrCat("unknown field '", path, "'; known: ", names));
  }
  return absl::OkStatus();
}

absl::Status ReadLimits(const value& body, v1::EpisodeOpenRequest& open) {
  const value* limits = base::Find(body, "limits");
  if (limits == nullptr || limits->is_null()) return absl::OkStatus();
  if (!limits->is_object()) return BadRequest("limits", "'limits' must be an object");
  INGOT_RETURN_IF_ERROR(CheckFields(*limits, {"max_calls", "max_tokens", "deadline_s"}, "limits."));
  INGOT_ASSIGN_OR_RETURN(const double calls, NumberField(*limits, "max_calls"));
  INGOT_ASSIGN_OR_RETURN(const double tokens, NumberField(*limits, "max_tokens"));
  INGOT_ASSIGN_OR_RETURN(const double deadline, NumberField(*limits, "deadline_s"));
  for (const double number : {calls, tokens, deadline}) {
    if (!(number >= 0)) return BadRequest("limits", "'limits' must be numbers of at least 0");
  }
  open.mutable_limits()->set_max_calls(static_cast<int32_t>(std::min<double>(calls, INT32_MAX)));
  open.mutable_limits()->set_max_tokens(static_cast<int64_t>(std::min(tokens, 1e18)));
  open.mutable_limits()->set_deadline_s(deadline);
  return absl::OkStatus();
}

// Reads the task, {"task_id":..,"domain":..,"payload":{..}}. "domain" may also be next to "task".
absl::Status ReadTask(const value& body, const base::JsonText& text, v1::EpisodeOpenRequest& open) {
  INGOT_ASSIGN_OR_RETURN(const std::string domain, StringField(body, "domain"));
  const value* task = base::Find(body, "task");
  if (task == nullptr || task->is_null()) {
    if (!domain.empty()) open.mutable_task()->set_domain(domain);
    return absl::OkStatus();
  }
  if (!task->is_object()) return BadRequest("task", "'task' must be an object");
  INGOT_RETURN_IF_ERROR(CheckFields(*task, {"task_id", "domain", "payload"}, "task."));
  INGOT_ASSIGN_OR_RETURN(const std::string id, StringField(*task, "task_id"));
  INGOT_ASSIGN_OR_RETURN(const std::string own_domain, StringField(*task, "domain"));
  open.mutable_task()->set_task_id(id);
  open.mutable_task()->set_domain(own_domain.empty() ? domain : own_domain);
  const value* payload = base::Find(*task, "payload");
  if (payload != nullptr && !payload->is_null()) {
    open.mutable_task()->set_payload_json(text.At("task.payload")->Compact());
  }
  return absl::OkStatus();
}

// Returns the call that an object refers to, or nullopt if there is none.
absl::StatusOr<std::optional<v1::CallReward>> ReadCall(const value& body) {
  v1::CallReward call;
  INGOT_ASSIGN_OR_RETURN(const std::string id, StringField(body, "call_id"));
  const value* turn = base::Find(body, "turn");
  const bool has_turn = turn != nullptr && !turn->is_null();
  if (has_turn && (!turn->is_int64() || turn->get_int64() < 0 || turn->get_int64() > INT32_MAX)) {
    return BadRequest("turn", "'turn' must be a whole number: 0 is the episode's first call");
  }
  if (has_turn && !id.empty()) return BadRequest("turn", "a call is named by 'call_id' or by 'turn', not by both");
  if (has_turn) call.set_turn(static_cast<int32_t>(turn->get_int64()));
  if (!id.empty()) call.set_call_id(id);
  if (!has_turn && id.empty()) return std::nullopt;
  return call;
}

}  // namespace

absl::Status CheckOpen(const v1::EpisodeOpenRequest& request, bool admission) {
  std::vector<std::pair<const char*, const std::string*>> names = {{"scaffold", &request.scaffold()},
                                                                   {"group", &request.group()},
                                                                   {"task.task_id", &request.task().task_id()},
                                                                   {"task.domain", &request.task().domain()}};
  for (const v1::DomainScaffold& named : request.by_domain()) names.emplace_back("by_domain", &named.scaffold());
  for (const auto& [field, name] : names) {
    if (name->size() <= kMaxName && base::IsPrintable(*name)) continue;
    return BadRequest(field, absl::StrCat("'", field, "' must have at most ", kMaxName,
                                          " bytes, without control characters or marks of direction"));
  }
  if (!request.from_snapshot().empty() && (request.has_task() || !request.group().empty() || !admission)) {
    return BadRequest("from_snapshot",
                      admission ? "'from_snapshot' joins the group of its episode: leave out 'task' and 'group'"
                                : "'from_snapshot' needs a training run: this server has no groups");
  }
  if (admission && request.has_task() == request.group().empty()) {
    return BadRequest(request.has_task() ? "group" : "task",
                      "'task' and 'group' belong together: send both or neither");
  }
  if (request.metadata_json().size() > kMaxMetadata) {
    return BadRequest("metadata", absl::StrCat("'metadata' must have at most ", kMaxMetadata, " bytes"));
  }
  for (const auto& [name, json] :
       {std::pair("metadata", &request.metadata_json()), std::pair("task.payload", &request.task().payload_json())}) {
    if (json->empty()) continue;
    const auto parsed = base::ParseJson(*json);
    if (!parsed.ok() || !parsed->is_object()) return BadRequest(name, absl::StrCat("'", name, "' must be an object"));
  }
  const v1::EpisodeLimits& limits = request.limits();
  if (limits.max_calls() < 0 || limits.max_tokens() < 0 || !(limits.deadline_s() >= 0) ||
      !std::isfinite(limits.deadline_s())) {
    return BadRequest("limits", "'limits' must be numbers of at least 0");
  }
  return absl::OkStatus();
}

absl::Status ReadOpen(const value& body, const base::JsonText& text, v1::EpisodeOpenRequest& open) {
  INGOT_RETURN_IF_ERROR(CheckFields(
      body, {"scaffold", "task", "domain", "group", "limits", "metadata", "separate_owner", "from_snapshot"}));
  INGOT_ASSIGN_OR_RETURN(const std::string scaffold, StringField(body, "scaffold"));
  INGOT_ASSIGN_OR_RETURN(const std::string group, StringField(body, "group"));
  open.set_scaffold(scaffold);
  open.set_group(group);
  INGOT_ASSIGN_OR_RETURN(const std::string snapshot, StringField(body, "from_snapshot"));
  open.set_from_snapshot(snapshot);
  INGOT_RETURN_IF_ERROR(ReadTask(body, text, open));
  INGOT_RETURN_IF_ERROR(ReadLimits(body, open));
  const value* metadata = base::Find(body, "metadata");
  if (metadata != nullptr && !metadata->is_null()) open.set_metadata_json(base::PrintJson(*metadata));
  const value* separate = base::Find(body, "separate_owner");
  if (separate == nullptr || separate->is_null()) return absl::OkStatus();
  if (!separate->is_bool()) return BadRequest("separate_owner", "'separate_owner' must be true or false");
  open.set_separate_owner(separate->get_bool());
  return absl::OkStatus();
}

absl::Status ReadEnd(const value& body, v1::EpisodeEndRequest& end) {
  INGOT_RETURN_IF_ERROR(CheckFields(body, {"status", "detail", "cause"}));
  INGOT_ASSIGN_OR_RETURN(const std::string state, StringField(body, "status"));
  INGOT_ASSIGN_OR_RETURN(const std::string detail, StringField(body, "detail"));
  INGOT_ASSIGN_OR_RETURN(const std::string cause, StringField(body, "cause"));
  if (state == "finished") {
    end.set_state(v1::EPISODE_FINISHED);
  } else if (state == "failed") {
    end.set_state(v1::EPISODE_FAILED);
  } else if (state == "infrastructure_failed") {
    end.set_state(v1::EPISODE_INFRASTRUCTURE_FAILED);
  } else {
    return BadRequest("status", R"('status' must be "finished", "failed" or "infrastructure_failed")");
  }
  end.set_detail(detail);
  end.set_cause(cause);
  return absl::OkStatus();
}

namespace {

absl::Status ReadSignals(const value& body, v1::EpisodeRewardRequest& request) {
  const value* named = base::Find(body, "signals");
  if (named == nullptr || named->is_null()) return absl::OkStatus();
  if (!named->is_object()) return BadRequest("signals", "'signals' must be an object of numbers");
  for (const auto& [name, number] : named->get_object()) {
    if (!number.is_bool() && !number.is_number()) {
      return BadRequest("signals", absl::StrCat("signal '", std::string(name), "' must be a number"));
    }
    (*request.mutable_signals())[std::string(name)] = number.is_bool() ? number.get_bool() : number.to_number<double>();
  }
  return absl::OkStatus();
}

absl::Status ReadFacts(const value& body, v1::EpisodeRewardRequest& request) {
  const value* named = base::Find(body, "facts");
  if (named == nullptr || named->is_null()) return absl::OkStatus();
  if (!named->is_object()) return BadRequest("facts", "'facts' must be an object");
  for (const auto& [name, fact] : named->get_object()) {
    (*request.mutable_facts())[std::string(name)] = base::PrintJson(fact);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadReward(const value& body, v1::EpisodeRewardRequest& request) {
  INGOT_RETURN_IF_ERROR(CheckFields(body, {"reward", "signals", "facts", "call_id", "turn", "calls"}));
  INGOT_ASSIGN_OR_RETURN(const double reward, NumberField(body, "reward"));
  const value* field = base::Find(body, "reward");
  const bool has_reward = field != nullptr && !field->is_null();
  INGOT_ASSIGN_OR_RETURN(auto call, ReadCall(body));
  if (call.has_value()) {
    if (!has_reward) return BadRequest("reward", "a call is named, but its 'reward' is missing");
    call->set_reward(reward);
    *request.add_call_rewards() = *std::move(call);
  } else if (has_reward) {
    request.set_reward(reward);
  }
  if (const value* calls = base::Find(body, "calls"); calls != nullptr && !calls->is_null()) {
    if (!calls->is_array()) return BadRequest("calls", "'calls' must be a list");
    for (const value& one : calls->get_array()) {
      if (one.is_object()) INGOT_RETURN_IF_ERROR(CheckFields(one, {"call_id", "turn", "reward"}, "calls[]."));
      auto named = one.is_object() ? ReadCall(one) : absl::StatusOr<std::optional<v1::CallReward>>(std::nullopt);
      if (!named.ok()) return named.status();
      const value* earned = one.is_object() ? base::Find(one, "reward") : nullptr;
      if (!named->has_value() || earned == nullptr || !earned->is_number()) {
        return BadRequest("calls", "each of 'calls' must have a 'call_id' or a 'turn', and a number 'reward'");
      }
      (*named)->set_reward(earned->to_number<double>());
      *request.add_call_rewards() = **std::move(named);
    }
  }
  INGOT_RETURN_IF_ERROR(ReadSignals(body, request));
  return ReadFacts(body, request);
}

}  // namespace ingot::gateway
