#include "text/chat/fitted_conversation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/big_integer.h"
#include "text/output/output_format.h"
#include "text/output/python_literal.h"
#include "text/output/readable_object.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

namespace json = base::json;
using base::Find;

constexpr int kMaxSchemaDepth = 16;

// ---- Tools --------------------------------------------------------------------------------------------------------

bool SetMissing(json::object& object, std::string_view key, json::value value) {
  json::value& field = object[key];
  if (!field.is_null()) return false;
  field = std::move(value);
  return true;
}

// Gives each property a description, including the properties of objects and of list items.
bool DescribeProperties(json::value& schema, int depth) {
  if (!schema.is_object() || depth > kMaxSchemaDepth) return false;
  bool changed = false;
  if (json::value* items = schema.get_object().if_contains("items")) changed = DescribeProperties(*items, depth + 1);
  json::value* properties = schema.get_object().if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return changed;
  for (auto& property : properties->get_object()) {
    if (!property.value().is_object()) continue;
    changed = SetMissing(property.value().get_object(), "description", "") || changed;
    changed = DescribeProperties(property.value(), depth + 1) || changed;
  }
  return changed;
}

bool FillParameters(json::object& function) {
  bool changed = SetMissing(function, "parameters", json::object());
  json::value& parameters = function["parameters"];
  if (!parameters.is_object()) return changed;
  changed = SetMissing(parameters.get_object(), "type", "object") || changed;
  changed = SetMissing(parameters.get_object(), "properties", json::object()) || changed;
  return DescribeProperties(parameters, 0) || changed;
}

json::object* FunctionOf(json::value& tool) {
  json::value* function = tool.is_object() ? tool.get_object().if_contains("function") : nullptr;
  return function == nullptr ? nullptr : function->if_object();
}

// ---- Messages -----------------------------------------------------------------------------------------------------

// A message of the fitted conversation. It has the text of the original messages [first, last].
struct Part {
  Message message;
  size_t first, last;
};

void JoinText(std::string& to, const std::string& more) {
  if (!to.empty() && !more.empty()) to += "\n\n";
  to += more;
}

// Adds the text of `more`, which follows `to`. Keeps the role of `to`.
void Join(Part& to, const Part& more) {
  JoinText(to.message.content, more.message.content);
  JoinText(to.message.reasoning, more.message.reasoning);
  to.message.tool_calls.insert(to.message.tool_calls.end(), more.message.tool_calls.begin(),
                               more.message.tool_calls.end());
  for (const auto& field : more.message.extra) to.message.extra.emplace(field.key(), field.value());
  to.last = more.last;
}

// Returns true if the arguments render as an object. Empty arguments render as {}.
bool HasObject(const ToolCall& call) {
  if (call.arguments_json.empty()) return true;
  const auto arguments = base::ParseJson(call.arguments_json);
  return arguments.ok() && arguments->is_object();
}

// Returns the call with an object as arguments, read as JSON, as Python, or as the readable beginning of JSON.
ToolCall Readable(ToolCall call) {
  if (!call.arguments_json.empty() && HasObject(call)) return call;
  const auto python = JsonOfPython(call.arguments_json);
  const auto parsed = base::ParseJson(python.value_or(""));
  const bool object = parsed.ok() && parsed->is_object();
  call.arguments_json = object ? *python : ReadableObjectText(call.arguments_json);
  return call;
}

// Returns a message's content and calls as one string: in the output format, or in JSON if the format cannot write
// them.
std::string WrittenCalls(const Message& message, const OutputFormat& format) {
  std::vector<ToolCall> calls;
  for (const ToolCall& call : message.tool_calls) calls.push_back(Readable(call));
  auto written = format.WriteCalls(message.content, calls);
  if (written.ok()) return *std::move(written);
  std::string text = message.content;
  for (const ToolCall& call : calls) {
    const json::object object{{"name", call.name}, {"arguments", *base::ParseJsonExactly(call.arguments_json)}};
    JoinText(text, PythonJson(object));
  }
  return text;
}

class Fitter {
 public:
  Fitter(const Conversation& conversation, Concessions wanted, const OutputFormat& format)
      : wanted_(wanted), format_(format) {
    fitted_.conversation.tools = conversation.tools;
    fitted_.conversation.template_variables = conversation.template_variables;
    for (size_t i = 0; i < conversation.messages.size(); ++i) parts_.push_back({conversation.messages[i], i, i});
  }

  FittedConversation Fit(size_t messages) {
    ChangeTools();
    ChangeCalls();
    JoinLeadingSystem();
    MoveSystem();
    JoinTurns();
    JoinUserToResult();
    PartCalls();
    FillBlank();
    fitted_.first.assign(messages, SIZE_MAX);
    fitted_.last.assign(messages, 0);
    for (Part& part : parts_) {
      const size_t place = fitted_.conversation.messages.size();
      for (size_t i = part.first; i <= part.last; ++i) {
        fitted_.first[i] = std::min(fitted_.first[i], place);
        fitted_.last[i] = place;
      }
      fitted_.conversation.messages.push_back(std::move(part.message));
    }
    return std::move(fitted_);
  }

 private:
  bool Wants(Concession concession) const { return wanted_.Has(concession); }
  void Changed(Concession concession) { fitted_.changed = fitted_.changed.With(concession); }
  bool Is(size_t i, std::string_view role) const { return i < parts_.size() && parts_[i].message.role == role; }

  void ChangeTools() {
    for (json::value& tool : fitted_.conversation.tools) {
      json::object* function = FunctionOf(tool);
      if (function == nullptr) continue;
      if (Wants(Concession::kToolDescription) && SetMissing(*function, "description", "")) {
        Changed(Concession::kToolDescription);
      }
      if (Wants(Concession::kToolParameters) && FillParameters(*function)) Changed(Concession::kToolParameters);
    }
  }

  // If the output format has no calls, the model wrote none, and the template's error is returned.
  bool WantsText() const {
    const OutputRow& row = format_.row();
    return Wants(Concession::kCallsAsText) && (row.channels.used() || !row.sections.empty());
  }

  void ChangeCalls() {
    for (Part& part : parts_) {
      Message& message = part.message;
      const bool calls = !message.tool_calls.empty();
      if (WantsText() && (calls || message.role == "tool")) {
        Changed(Concession::kCallsAsText);
        if (calls) message.content = WrittenCalls(message, format_);
        message.tool_calls.clear();
        message.tool_call_id.clear();
        if (message.role == "tool") message.role = "user";
      }
      for (ToolCall& call : message.tool_calls) {
        if (!Wants(Concession::kArguments) || HasObject(call)) continue;
        Changed(Concession::kArguments);
        call = Readable(std::move(call));
      }
    }
  }

  void JoinLeadingSystem() {
    if (!Wants(Concession::kLeadingSystem)) return;
    JoinEach(Concession::kLeadingSystem, [](const Part& one, const Part& next) {
      return one.first == 0 && one.message.role == "system" && next.message.role == "system";
    });
  }

  // Moves each run of system messages, except the leading run, before the user's next turn. If there is none, the run
  // goes after the user's previous turn, or else becomes a user turn.
  void MoveSystem() {
    if (!Wants(Concession::kLateSystem) && !Wants(Concession::kAnySystem)) return;
    std::vector<Part> moved;
    size_t i = 0;
    while (Is(i, "system") && !Wants(Concession::kAnySystem)) moved.push_back(std::move(parts_[i++]));
    while (i < parts_.size()) {
      if (!Is(i, "system")) {
        moved.push_back(std::move(parts_[i++]));
        continue;
      }
      Changed(i == 0 ? Concession::kAnySystem : Concession::kLateSystem);
      Part run = std::move(parts_[i++]);
      run.message.role = "user";
      for (; Is(i, "system"); ++i) Join(run, parts_[i]);
      if (Is(i, "user")) {
        Join(run, parts_[i++]);
      } else if (!moved.empty() && moved.back().message.role == "user") {
        Join(moved.back(), run);
        continue;
      }
      moved.push_back(std::move(run));
    }
    parts_ = std::move(moved);
  }

  void JoinTurns() {
    if (!Wants(Concession::kTurns)) return;
    JoinEach(Concession::kTurns, [](const Part& one, const Part& next) {
      const std::string& role = one.message.role;
      return role == next.message.role && (role == "user" || role == "assistant");
    });
    const size_t begin = Is(0, "system") ? 1 : 0;
    if (!Is(begin, "assistant")) return;
    Changed(Concession::kTurns);
    Part asked{{}, parts_[begin].first, parts_[begin].first};
    asked.message.role = "user";
    parts_.insert(parts_.begin() + static_cast<std::ptrdiff_t>(begin), std::move(asked));
  }

  void JoinUserToResult() {
    if (!Wants(Concession::kUserAfterResult)) return;
    JoinEach(Concession::kUserAfterResult, [](const Part& one, const Part& next) {
      return one.message.role == "tool" && next.message.role == "user";
    });
  }

  void PartCalls() {
    if (!Wants(Concession::kOneCall)) return;
    std::vector<Part> parted;
    for (Part& part : parts_) {
      std::vector<ToolCall> calls = std::exchange(part.message.tool_calls, {});
      if (calls.size() > 1) Changed(Concession::kOneCall);
      if (!calls.empty()) part.message.tool_calls = {calls[0]};
      const size_t first = part.first, last = part.last;
      parted.push_back(std::move(part));
      for (size_t call = 1; call < calls.size(); ++call) {
        parted.push_back({{}, first, last});
        parted.back().message.role = "assistant";
        parted.back().message.tool_calls = {std::move(calls[call])};
      }
    }
    parts_ = std::move(parted);
  }

  void FillBlank() {
    if (!Wants(Concession::kBlankContent)) return;
    for (Part& part : parts_) {
      if (!part.message.content.empty() || !part.message.tool_calls.empty()) continue;
      part.message.content = " ";
      Changed(Concession::kBlankContent);
    }
  }

  // Joins each message to the previous one if `joins` returns true.
  template <typename Joins>
  void JoinEach(Concession concession, Joins joins) {
    std::vector<Part> joined;
    for (Part& part : parts_) {
      if (joined.empty() || !joins(joined.back(), part)) {
        joined.push_back(std::move(part));
        continue;
      }
      Changed(concession);
      Join(joined.back(), part);
    }
    parts_ = std::move(joined);
  }

  const Concessions wanted_;
  const OutputFormat& format_;
  FittedConversation fitted_;
  std::vector<Part> parts_;
};

}  // namespace

FittedConversation FitConversation(const Conversation& conversation, Concessions concessions,
                                   const OutputFormat& format) {
  return Fitter(conversation, concessions, format).Fit(conversation.messages.size());
}

}  // namespace ingot::text
