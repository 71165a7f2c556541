#include "app/models/chat_vendor.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "app/models/http_post.h"
#include "base/executor.h"
#include "base/printable.h"
#include "base/secret.h"

namespace ingot::app {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr int kTries = 4;
constexpr std::chrono::seconds kFirstWait{1};  // doubles after each retry

std::string TextAt(const value& json, std::string_view name) {
  const value* field = base::Find(json, name);
  return field != nullptr && field->is_string() ? std::string(field->get_string()) : std::string();
}

object MessageOf(const text::Message& message) {
  object out{{"role", message.role}, {"content", message.content}};
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  if (message.tool_calls.empty()) return out;
  array calls;
  for (const text::ToolCall& call : message.tool_calls) {
    calls.push_back(object{{"id", call.id},
                           {"type", "function"},
                           {"function", object{{"name", call.name}, {"arguments", call.arguments_json}}}});
  }
  out["tool_calls"] = std::move(calls);
  return out;
}

// Adds a message or part of one to the answer.
void AddTo(const value& part, text::Message& message) {
  message.content += TextAt(part, "content");
  const value* calls = base::Find(part, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (size_t i = 0; i < calls->get_array().size(); ++i) {
    const value& call = calls->get_array()[i];
    const value* index = base::Find(call, "index");
    const size_t at = index != nullptr && index->is_int64() && index->get_int64() >= 0
                          ? static_cast<size_t>(index->get_int64())
                          : message.tool_calls.size();
    if (at > message.tool_calls.size()) continue;  // part of a call whose first part is missing
    if (at == message.tool_calls.size()) message.tool_calls.emplace_back();
    const value* function = base::Find(call, "function");
    if (function == nullptr) continue;
    message.tool_calls[at].name += TextAt(*function, "name");
    message.tool_calls[at].arguments_json += TextAt(*function, "arguments");
  }
}

// Adds choices[0] of a response or an event. Returns false if there is none.
bool AddChoice(const value& json, const char* field, VendorAnswer& answer) {
  const value* choices = base::Find(json, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return false;
  const value& choice = choices->get_array()[0];
  const value* part = base::Find(choice, field);
  if (part == nullptr || !part->is_object()) return false;
  AddTo(*part, answer.message);
  const std::string finish = TextAt(choice, "finish_reason");
  answer.cut = answer.cut || finish == "length";
  answer.finished = answer.finished || !finish.empty();
  return true;
}

// One request. Makes no callbacks after its handle has been destroyed.
class Pending {
 public:
  explicit Pending(gateway::TextModel::OnChunk on_chunk) : on_chunk_(std::move(on_chunk)) {}

  void Deliver(absl::StatusOr<v1::GenerateChunk> chunk) {
    base::MutexLock lock(mu_);
    if (dropped_) return;
    deliverer_ = std::this_thread::get_id();
    on_chunk_(std::move(chunk));
  }
  // Blocks while another thread is delivering a chunk. Does not wait for the calling thread itself.
  void Drop() {
    dropped_ = true;
    if (deliverer_.load() == std::this_thread::get_id()) return;
    base::MutexLock lock(mu_);
    changed_.SignalAll();
  }
  void WaitUnlessDropped(std::chrono::nanoseconds most) {
    base::MutexLock lock(mu_);
    if (!dropped_) changed_.WaitFor(mu_, most);
  }
  bool dropped() const { return dropped_; }

 private:
  const gateway::TextModel::OnChunk on_chunk_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::atomic<bool> dropped_ = false;
  std::atomic<std::thread::id> deliverer_;
};

class Handle final : public gateway::TextModel::Request {
 public:
  explicit Handle(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  ~Handle() override { pending_->Drop(); }

 private:
  const std::shared_ptr<Pending> pending_;
};

class ChatVendor final : public gateway::TextModel {
 public:
  ChatVendor(gateway::ModelOptions model, std::string key, TextParts text)
      : model_(std::move(model)),
        key_(std::move(key)),
        text_(std::move(text)),
        executor_({.name = "vendor", .threads = model_.concurrency}) {}

  std::unique_ptr<Request> Generate(std::shared_ptr<const gateway::GatewayRequest> request, v1::GenerateRequest prompt,
                                    OnChunk on_chunk) override {
    auto pending = std::make_shared<Pending>(std::move(on_chunk));
    executor_.Post(
        [this, pending, request = std::move(request), prompt = std::move(prompt)] { Run(*pending, *request, prompt); });
    return std::make_unique<Handle>(std::move(pending));
  }

 private:
  // Sends the request and retries while the server is too busy.
  void Run(Pending& pending, const gateway::GatewayRequest& request, const v1::GenerateRequest& prompt) const {
    for (int number = 1; !pending.dropped(); ++number) {
      absl::StatusOr<v1::GenerateChunk> chunk = Ask(pending, request, prompt);
      if (absl::IsUnavailable(chunk.status()) && number < kTries) {
        pending.WaitUnlessDropped(kFirstWait * (1 << (number - 1)));
        continue;
      }
      if (!chunk.ok()) chunk = base::Annotate(chunk.status(), absl::StrCat("model '", model_.name, "'"));
      return pending.Deliver(std::move(chunk));
    }
  }

  absl::StatusOr<v1::GenerateChunk> Ask(const Pending& pending, const gateway::GatewayRequest& request,
                                        const v1::GenerateRequest& prompt) const {
    INGOT_ASSIGN_OR_RETURN(const object body, VendorRequest(model_, request, prompt.sampling()));
    INGOT_ASSIGN_OR_RETURN(const std::string text, Post({.url = ChatCompletionsUrl(model_.url),
                                                         .body = base::PrintJson(body),
                                                         .key = key_,
                                                         .timeout_s = model_.timeout_s,
                                                         .cancelled = [&] { return pending.dropped(); }}));
    auto answer = ReadVendorAnswer(text, model_.stream);
    if (!answer.ok()) return base::WithoutKey(base::Annotate(answer.status(), model_.url), key_);
    INGOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, Encode(request.conversation, *answer, prompt));
    v1::GenerateChunk chunk;
    chunk.mutable_token_ids()->Add(ids.begin(), ids.end());
    chunk.mutable_logprobs()->Resize(static_cast<int>(ids.size()), 0);
    chunk.add_versions()->set_count(static_cast<int32_t>(ids.size()));
    chunk.set_finish(answer->cut ? v1::FINISH_LENGTH : v1::FINISH_STOP);
    return chunk;
  }

  // Returns the ids that a model with the run's chat format would have sampled after this prompt to give the same
  // answer.
  absl::StatusOr<std::vector<int32_t>> Encode(const text::Conversation& asked, const VendorAnswer& answer,
                                              const v1::GenerateRequest& prompt) const {
    text::Conversation conversation = asked;
    conversation.messages.push_back(answer.message);
    const size_t last = conversation.messages.size() - 1;
    INGOT_ASSIGN_OR_RETURN(const std::vector<text::RenderedTurn> turns, text_.format->RenderTurns(conversation, last));
    if (turns.size() != 1) {
      return absl::FailedPreconditionError("the chat template writes the answer's tool calls as several turns");
    }
    std::vector<int32_t> sampled = turns[0].sampled;
    // A template may start the answer, for example with "<think>\n".
    std::vector<int32_t> all = turns[0].context;
    all.insert(all.end(), sampled.begin(), sampled.end());
    const auto& ids = prompt.prompt_ids();
    if (std::ssize(all) > ids.size() && std::equal(ids.begin(), ids.end(), all.begin())) {
      sampled.assign(all.begin() + ids.size(), all.end());
    } else {
      INGOT_ASSIGN_OR_RETURN(const text::RenderedPrompt rendered, text_.format->Render(asked, true));
      if (!rendered.prefill.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("the chat template starts an answer with '", rendered.prefill,
                         "', which text without reasoning does not continue: turn reasoning off in the request, or "
                         "set a model.chat_format without it"));
      }
    }
    if (answer.cut) {
      while (!sampled.empty() && std::ranges::count(text_.format->end_of_turn_ids(), sampled.back()) > 0) {
        sampled.pop_back();
      }
    }
    if (sampled.empty()) return absl::FailedPreconditionError("the answer is empty");
    return sampled;
  }

  const gateway::ModelOptions model_;
  const std::string key_;
  const TextParts text_;
  base::Executor executor_;  // declared last because its threads must stop first
};

}  // namespace

absl::StatusOr<object> VendorRequest(const gateway::ModelOptions& model, const gateway::GatewayRequest& request,
                                     const v1::SamplingParams& sampling) {
  const auto reject = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", model.name, "' accepts only text (gateway.models, url) and cannot be used ", base::View(what)));
  };
  if (!request.raw_prompts.empty()) return reject("to continue a prompt without messages");
  if (request.conversation.ends_begun) return reject("to continue an answer that the client began");
  if (request.logprobs || request.top_logprobs > 0) return reject("for log-probs");
  if (request.regex.has_value() || !request.choice_texts.empty()) return reject("for constrained output");
  if (sampling.top_k() > 0 || sampling.min_p() > 0 || sampling.min_new_tokens() > 0 || !sampling.logit_bias().empty() ||
      (sampling.repetition_penalty() != 0 && sampling.repetition_penalty() != 1)) {
    return reject("to sample with top_k, min_p, min_tokens, repetition_penalty, or logit_bias");
  }
  object body{{"model", model.served_model.empty() ? model.name : model.served_model},
              {"temperature", sampling.temperature()},
              {"max_tokens", sampling.max_new_tokens()}};
  if (sampling.top_p() > 0 && sampling.top_p() < 1) body["top_p"] = sampling.top_p();
  if (sampling.frequency_penalty() != 0) body["frequency_penalty"] = sampling.frequency_penalty();
  if (sampling.presence_penalty() != 0) body["presence_penalty"] = sampling.presence_penalty();
  array messages;
  for (const text::Message& message : request.conversation.messages) messages.push_back(MessageOf(message));
  body["messages"] = std::move(messages);
  if (request.tools_enabled()) {
    body["tools"] = array(request.conversation.tools.begin(), request.conversation.tools.end());
    const gateway::ToolChoice& choice = request.tool_choice;
    if (choice.mode == gateway::ToolChoice::Mode::kRequired && choice.names.size() == 1) {
      body["tool_choice"] = object{{"type", "function"}, {"function", object{{"name", choice.names[0]}}}};
    } else if (!choice.names.empty()) {
      return reject("to call only some of its tools");
    } else if (choice.mode == gateway::ToolChoice::Mode::kRequired) {
      body["tool_choice"] = "required";
    }
    if (!request.parallel_tool_calls) body["parallel_tool_calls"] = false;
  }
  if (!request.stop.empty()) body["stop"] = array(request.stop.begin(), request.stop.end());
  if (request.json_schema.has_value()) {
    INGOT_ASSIGN_OR_RETURN(value schema, base::ParseJson(*request.json_schema));
    object named{{"name", "answer"}, {"strict", true}, {"schema", std::move(schema)}};
    body["response_format"] = object{{"type", "json_schema"}, {"json_schema", std::move(named)}};
  }
  if (model.stream) body["stream"] = true;
  return body;
}

absl::StatusOr<VendorAnswer> ReadVendorAnswer(std::string_view body, bool stream) {
  VendorAnswer answer;
  answer.message.role = "assistant";
  const auto fault = [&](std::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat(base::View(what), ": ", base::Printable(body, {.max_bytes = 200})));
  };
  if (!stream) {
    const auto json = base::ParseJson(body);
    if (json.ok() && AddChoice(*json, "message", answer)) return answer;
    return fault("it answered without choices[0].message");
  }
  bool any = false;
  for (absl::string_view line : absl::StrSplit(base::View(body), '\n')) {
    if (!absl::ConsumePrefix(&line, "data:")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (line == "[DONE]") {
      answer.finished = true;
      break;
    }
    const auto json = base::ParseJson(std::string_view(line.data(), line.size()));
    if (!json.ok()) return fault("an event of its stream is not JSON");
    if (base::Find(*json, "error") != nullptr) return fault("its stream contains an error");
    any = AddChoice(*json, "delta", answer) || any;
  }
  if (!answer.finished) return fault("its stream ended before a finish_reason or [DONE]");
  if (!any) return fault("its stream contains no choices[0].delta");
  return answer;
}

absl::StatusOr<std::shared_ptr<gateway::TextModel>> NewChatVendor(const gateway::ModelOptions& model, TextParts text) {
  std::string key;
  if (!model.key_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(key, base::ReadSecret(model.key_file));
  }
  return std::make_shared<ChatVendor>(model, std::move(key), std::move(text));
}

absl::StatusOr<std::map<std::string, std::shared_ptr<gateway::TextModel>>> ConnectChatVendors(
    const gateway::GatewayOptions& gateway, const TextParts& text) {
  std::map<std::string, std::shared_ptr<gateway::TextModel>> vendors;
  for (const gateway::ModelOptions& model : gateway.models) {
    if (model.url.empty()) continue;
    auto vendor = NewChatVendor(model, text);
    if (!vendor.ok())
      return base::Annotate(vendor.status(), absl::StrCat("gateway.models ('", model.name, "').key_file"));
    vendors[model.name] = *std::move(vendor);
  }
  return vendors;
}

}  // namespace ingot::app
