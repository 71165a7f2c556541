#include "dataset/atif.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <string_view>
#include <utility>

#include "base/big_integer.h"
#include "tree/episode_return.h"

namespace ingot::dataset {
namespace {

namespace json = base::json;

constexpr std::string_view kSchema = "ATIF-v1.7";

std::string TextOf(const json::value& object, std::string_view key) {
  const json::value* field = base::Find(object, key);
  return field != nullptr && field->is_string() ? std::string(field->get_string()) : "";
}

// Returns a timestamp like "2026-01-02T03:04:05Z".
std::string Timestamp(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text, length};
}

// ---- Export to ATIF

// Returns each call's thread: its branch; if it has none, the model of a chain of calls that the policy did not make;
// or empty for the main thread.
std::vector<std::string> ThreadsOf(const v1::EpisodeTree& tree) {
  std::map<std::string_view, size_t> index;
  std::vector<std::string> threads;
  for (int i = 0; i < tree.calls_size(); ++i) {
    const v1::Call& call = tree.calls(i);
    const auto parent = index.find(call.parent_call_id());
    std::string thread = call.branch();
    if (thread.empty() && parent != index.end()) thread = threads[parent->second];
    const bool trains = tree.episode().purpose() == v1::PURPOSE_TRAIN;
    if (thread.empty() && parent == index.end() && trains && call.weights() != v1::WEIGHTS_FOLLOW) {
      thread = absl::StrCat(call.model(), "-", call.sequence());
    }
    index[call.call_id()] = static_cast<size_t>(i);
    threads.push_back(std::move(thread));
  }
  return threads;
}

json::object MetricsOf(const v1::Call& call, const tree::CallPath& path) {
  const std::vector<int32_t> all = path.Tokens();
  const auto context = static_cast<int64_t>(path.context.size());
  json::object metrics;
  metrics["prompt_tokens"] = context;
  metrics["completion_tokens"] = path.sampled.size();
  metrics["cached_tokens"] = call.cached_tokens();
  metrics["prompt_token_ids"] = json::array(all.begin(), all.begin() + context);
  metrics["completion_token_ids"] = json::array(path.sampled.begin(), path.sampled.end());
  if (!call.encoded()) metrics["logprobs"] = json::array(path.logprobs.begin(), path.logprobs.end());
  return metrics;
}

json::object AgentStep(const v1::Call& call, const tree::CallPath& path, const DecodeIds& decode) {
  json::object step{{"source", "agent"}, {"model_name", call.model()}, {"llm_call_count", 1}};
  if (call.times().arrival_unix_ns() > 0) step["timestamp"] = Timestamp(call.times().arrival_unix_ns());
  const auto message = base::ParseJsonExactly(call.delivered_json().empty() ? "{}" : call.delivered_json());
  const json::value delivered = message.ok() ? *message : json::value(json::object());
  step["message"] = call.delivered_json().empty() ? decode(path.sampled) : TextOf(delivered, "content");
  if (std::string thought = TextOf(delivered, "reasoning_content"); !thought.empty()) {
    step["reasoning_content"] = std::move(thought);
  }
  const json::value* calls = base::Find(delivered, "tool_calls");
  json::array tool_calls;
  if (calls != nullptr && calls->is_array()) {
    for (const json::value& one : calls->get_array()) {
      const json::value* function = base::Find(one, "function");
      if (function == nullptr) continue;
      const std::string text = TextOf(*function, "arguments");
      const auto arguments = base::ParseJsonExactly(text);
      json::object tool_call{{"tool_call_id", TextOf(one, "id")}, {"function_name", TextOf(*function, "name")}};
      const bool object = arguments.ok() && arguments->is_object();
      tool_call["arguments"] = object ? *arguments : json::value(json::object());
      if (!object) tool_call["extra"] = json::object{{"arguments_text", text}};
      tool_calls.push_back(std::move(tool_call));
    }
  }
  if (!tool_calls.empty()) step["tool_calls"] = std::move(tool_calls);
  step["metrics"] = MetricsOf(call, path);
  json::array versions;
  for (const int64_t version : path.versions) {
    if (versions.empty() || versions.back() != version) versions.push_back(version);
  }
  json::object extra{{"call_id", call.call_id()},
                     {"temperature", static_cast<double>(call.sampling().temperature())},
                     {"finish", v1::FinishReason_Name(call.finish())},
                     {"versions", std::move(versions)},
                     {"tokenizer", call.tokenizer_fingerprint()},
                     {"encoded", call.encoded()}};
  if (!call.fork_cause().empty()) extra["fork"] = call.fork_cause();
  step["extra"] = std::move(extra);
  return step;
}

// Returns the part of the prompt after the previous path.
std::vector<int32_t> NewPart(const std::vector<int32_t>& before, const tree::CallPath& path) {
  std::vector<int32_t> context = path.Tokens();
  context.resize(static_cast<size_t>(path.context.size()));
  const bool continues = before.size() <= context.size() && std::equal(before.begin(), before.end(), context.begin());
  if (continues) context.erase(context.begin(), context.begin() + static_cast<ptrdiff_t>(before.size()));
  return context;
}

json::object TrajectoryOf(const v1::EpisodeTree& tree, const std::vector<size_t>& calls,
                          const std::vector<tree::CallPath>& paths, const DecodeIds& decode) {
  json::array steps;
  std::vector<int32_t> before;
  for (const size_t c : calls) {
    if (const std::vector<int32_t> fresh = NewPart(before, paths[c]); !fresh.empty()) {
      steps.push_back(json::object{{"step_id", steps.size() + 1}, {"source", "user"}, {"message", decode(fresh)}});
    }
    json::object step = AgentStep(tree.calls(static_cast<int>(c)), paths[c], decode);
    step["step_id"] = steps.size() + 1;
    steps.push_back(std::move(step));
    before = paths[c].Tokens();
  }
  const std::string scaffold = tree.episode().scaffold().empty() ? "agent" : tree.episode().scaffold();
  return {{"schema_version", std::string(kSchema)},
          {"agent", json::object{{"name", scaffold}, {"version", "unknown"}}},
          {"steps", std::move(steps)}};
}

json::object ExtraOf(const v1::Episode& episode) {
  json::object extra{{"episode_id", episode.episode_id()},
                     {"task_id", episode.task().task_id()},
                     {"group", episode.ref().group_id()},
                     {"sample", episode.ref().sample_index()}};
  if (!episode.task().domain().empty()) extra["domain"] = episode.task().domain();
  if (episode.has_reward()) extra["outcome"] = episode.reward();
  if (episode.has_grade()) extra["reward"] = tree::ReturnOf(episode);
  if (!episode.signals().empty()) {
    json::object signals;
    for (const auto& [name, value] :
         std::map<std::string, double>(episode.signals().begin(), episode.signals().end())) {
      signals[name] = value;
    }
    extra["signals"] = std::move(signals);
  }
  return extra;
}

// ---- Import from ATIF

absl::StatusOr<std::vector<int32_t>> IdsAt(const json::value& metrics, std::string_view key) {
  std::vector<int32_t> ids;
  const json::value* list = base::Find(metrics, key);
  if (list == nullptr || !list->is_array()) return ids;
  for (const json::value& id : list->get_array()) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(key), " contains ", base::PrintJson(id), ", which is not a token id"));
    }
    ids.push_back(static_cast<int32_t>(id.get_int64()));
  }
  return ids;
}

// Returns a message's text. Returns INVALID_ARGUMENT if a part is not text.
absl::StatusOr<std::string> Content(const json::value& step, std::string_view key) {
  const json::value* field = base::Find(step, key);
  if (field == nullptr || field->is_null()) return std::string();
  if (field->is_string()) return std::string(field->get_string());
  if (!field->is_array())
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(key), "' is neither a string nor a list of parts"));
  std::string text;
  for (const json::value& part : field->get_array()) {
    if (TextOf(part, "type") != "text") return absl::InvalidArgumentError("one of its parts is not text");
    text += TextOf(part, "text");
  }
  return text;
}

// Reads the steps of one trajectory, in file order.
class Reader {
 public:
  Reader(const text::ChatFormat& format, std::string branch, std::string model, AtifTrajectory& out)
      : format_(format), branch_(std::move(branch)), model_(std::move(model)), out_(out) {}

  absl::Status AddStep(const json::value& step) {
    const std::string source = TextOf(step, "source");
    INGOT_ASSIGN_OR_RETURN(const std::string content, Content(step, "message"));
    if (source == "agent") {
      INGOT_RETURN_IF_ERROR(AddAgent(step, content));
    } else if (source == "user" || source == "system") {
      conversation_.messages.push_back(
          {.role = source, .content = content, .reasoning = "", .tool_calls = {}, .tool_call_id = "", .name = ""});
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("its source is '", source, "': it must be system, user, or agent"));
    }
    return AddObservation(step);
  }
  text::Conversation& conversation() { return conversation_; }

 private:
  absl::Status AddAgent(const json::value& step, const std::string& content) {
    text::Message message{.role = "assistant",
                          .content = content,
                          .reasoning = TextOf(step, "reasoning_content"),
                          .tool_calls = {},
                          .tool_call_id = "",
                          .name = ""};
    const json::value* calls = base::Find(step, "tool_calls");
    if (calls != nullptr && calls->is_array()) {
      for (const json::value& call : calls->get_array()) {
        const json::value* arguments = base::Find(call, "arguments");
        message.tool_calls.push_back({.id = TextOf(call, "tool_call_id"),
                                      .name = TextOf(call, "function_name"),
                                      .arguments_json = arguments == nullptr ? "{}" : base::PrintJson(*arguments)});
      }
    }
    conversation_.messages.push_back(std::move(message));
    const json::value* count = base::Find(step, "llm_call_count");
    if (count != nullptr && count->is_int64() && count->get_int64() == 0) return absl::OkStatus();  // no model made it
    const json::value* copied = base::Find(step, "is_copied_context");
    if (copied != nullptr && copied->is_bool() && copied->get_bool()) return absl::OkStatus();
    AtifCall call;
    call.branch = branch_;
    call.model = TextOf(step, "model_name").empty() ? model_ : TextOf(step, "model_name");
    INGOT_RETURN_IF_ERROR(FillPath(step, call));
    json::object delivered{{"role", "assistant"}, {"content", content}};
    call.delivered_json = base::PrintJson(delivered);
    out_.calls.push_back(std::move(call));
    return absl::OkStatus();
  }

  absl::Status FillPath(const json::value& step, AtifCall& call) const {
    const json::value* metrics = base::Find(step, "metrics");
    std::vector<int32_t> prompt, sampled;
    if (metrics != nullptr) {
      INGOT_ASSIGN_OR_RETURN(prompt, IdsAt(*metrics, "prompt_token_ids"));
      INGOT_ASSIGN_OR_RETURN(sampled, IdsAt(*metrics, "completion_token_ids"));
    }
    const json::value* extra = base::Find(step, "extra");
    const json::value* was_encoded = extra == nullptr ? nullptr : base::Find(*extra, "encoded");
    call.encoded = prompt.empty() || sampled.empty() ||
                   (was_encoded != nullptr && was_encoded->is_bool() && was_encoded->get_bool());
    if (prompt.empty() || sampled.empty()) {
      INGOT_ASSIGN_OR_RETURN(std::vector<text::RenderedTurn> turns,
                             format_.RenderTurns(conversation_, conversation_.messages.size() - 1));
      if (turns.empty()) return absl::InvalidArgumentError("the chat format does not render it as a turn");
      prompt = std::move(turns.back().context);
      sampled = std::move(turns.back().sampled);
    }
    call.path.context = tree::TokenPath().Then(std::move(prompt));
    call.path.logprobs.assign(sampled.size(), 0.0f);
    call.path.versions.assign(sampled.size(), 0);
    call.path.kv_mixed.assign(sampled.size(), 0);
    const json::value* logprobs = metrics == nullptr || call.encoded ? nullptr : base::Find(*metrics, "logprobs");
    if (logprobs != nullptr && logprobs->is_array() && logprobs->get_array().size() == sampled.size()) {
      for (size_t t = 0; t < sampled.size(); ++t) {
        const json::value& one = logprobs->get_array()[t];
        if (!one.is_number()) return absl::InvalidArgumentError("'logprobs' contains a value that is not a number");
        call.path.logprobs[t] = static_cast<float>(one.to_number<double>());
      }
    }
    call.path.sampled = std::move(sampled);
    return absl::OkStatus();
  }

  absl::Status AddObservation(const json::value& step) {
    const json::value* observation = base::Find(step, "observation");
    const json::value* results = observation == nullptr ? nullptr : base::Find(*observation, "results");
    if (results == nullptr || !results->is_array()) return absl::OkStatus();
    for (const json::value& result : results->get_array()) {
      INGOT_ASSIGN_OR_RETURN(std::string content, Content(result, "content"));
      const std::string id = TextOf(result, "source_call_id");
      if (content.empty() && id.empty()) continue;
      conversation_.messages.push_back({.role = id.empty() ? "user" : "tool",
                                        .content = std::move(content),
                                        .reasoning = "",
                                        .tool_calls = {},
                                        .tool_call_id = id,
                                        .name = ""});
    }
    return absl::OkStatus();
  }

  const text::ChatFormat& format_;
  const std::string branch_, model_;
  AtifTrajectory& out_;
  text::Conversation conversation_;
};

absl::Status ReadSteps(const json::value& trajectory, const std::string& branch, const text::ChatFormat& format,
                       AtifTrajectory& out) {
  const json::value* steps = base::Find(trajectory, "steps");
  if (steps == nullptr || !steps->is_array() || steps->get_array().empty()) {
    return absl::InvalidArgumentError("the trajectory has no steps");
  }
  const json::value* agent = base::Find(trajectory, "agent");
  Reader reader(format, branch, agent == nullptr ? "" : TextOf(*agent, "model_name"), out);
  const json::value* tools = agent == nullptr ? nullptr : base::Find(*agent, "tool_definitions");
  if (tools != nullptr && tools->is_array()) {
    for (const json::value& tool : tools->get_array()) reader.conversation().tools.push_back(tool);
  }
  for (size_t i = 0; i < steps->get_array().size(); ++i) {
    INGOT_RETURN_IF_ERROR(base::Annotate(reader.AddStep(steps->get_array()[i]), absl::StrCat("steps[", i, "]")));
  }
  const json::value* inner = base::Find(trajectory, "subagent_trajectories");
  if (inner == nullptr || !inner->is_array()) return absl::OkStatus();
  for (const json::value& sub : inner->get_array()) {
    const std::string id = TextOf(sub, "trajectory_id");
    INGOT_RETURN_IF_ERROR(base::Annotate(ReadSteps(sub, id.empty() ? "sub-agent" : id, format, out),
                                         absl::StrCat("subagent trajectory '", id, "'")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<json::object> ToAtif(const v1::EpisodeTree& tree, const DecodeIds& decode) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<tree::CallPath> paths, tree::CallPathsOf(tree, 0, 0));
  if (paths.empty()) return absl::FailedPreconditionError("the episode has no call, but ATIF requires a step");
  const std::vector<std::string> threads = ThreadsOf(tree);
  std::map<std::string, std::vector<size_t>> calls;  // by thread
  for (size_t c = 0; c < threads.size(); ++c) calls[threads[c]].push_back(c);
  const std::string main = calls.contains("") ? "" : threads.front();
  json::object trajectory = TrajectoryOf(tree, calls.at(main), paths, decode);
  const std::string& id = tree.episode().episode_id();
  trajectory["session_id"] = id;
  trajectory["trajectory_id"] = id;
  trajectory["extra"] = ExtraOf(tree.episode());
  json::array inner, references;
  for (const auto& [thread, of_thread] : calls) {
    if (thread == main) continue;
    json::object sub = TrajectoryOf(tree, of_thread, paths, decode);
    sub["trajectory_id"] = absl::StrCat(id, "/", thread);
    references.push_back(json::object{{"trajectory_id", sub["trajectory_id"]}});
    inner.push_back(std::move(sub));
  }
  if (!inner.empty()) {
    trajectory["subagent_trajectories"] = std::move(inner);
    json::object& last = trajectory["steps"].get_array().back().get_object();
    last["observation"] =
        json::object{{"results", json::array{json::object{{"subagent_trajectory_ref", std::move(references)}}}}};
  }
  return trajectory;
}

absl::StatusOr<AtifTrajectory> FromAtif(const json::value& trajectory, const text::ChatFormat& format) {
  if (!TextOf(trajectory, "schema_version").starts_with("ATIF-v1.")) {
    return absl::InvalidArgumentError(absl::StrCat("its schema_version is '", TextOf(trajectory, "schema_version"),
                                                   "': only ATIF-v1.x is supported"));
  }
  AtifTrajectory out;
  const json::value* agent = base::Find(trajectory, "agent");
  if (agent != nullptr) out.agent = TextOf(*agent, "name");
  out.id = TextOf(trajectory, "trajectory_id");
  if (out.id.empty()) out.id = TextOf(trajectory, "session_id");
  if (const json::value* extra = base::Find(trajectory, "extra")) {
    out.task_id = TextOf(*extra, "task_id");
    out.domain = TextOf(*extra, "domain");
    const json::value* outcome = base::Find(*extra, "outcome");
    out.has_outcome = outcome != nullptr && outcome->is_number();
    if (out.has_outcome) out.outcome = outcome->to_number<double>();
    const json::value* signals = base::Find(*extra, "signals");
    if (signals != nullptr && signals->is_object()) {
      for (const auto& [name, value] : signals->get_object()) {
        if (value.is_number()) out.signals[name] = value.to_number<double>();
      }
    }
  }
  INGOT_RETURN_IF_ERROR(ReadSteps(trajectory, "", format, out));
  if (out.calls.empty()) return absl::InvalidArgumentError("none of its steps comes from a model");
  return out;
}

}  // namespace ingot::dataset
