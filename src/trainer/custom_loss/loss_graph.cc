#include "trainer/custom_loss/loss_graph.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/printable.h"
#include "trainer/custom_loss/operations.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMaxMetrics = 32, kMaxMetricName = 64;
constexpr std::array kInputs{"logprobs", "rollout_logprobs", "advantages", "mask", "segments", "episodes"};

// Positions in kInputs.
constexpr size_t kSegmentsInput = 4, kEpisodesInput = 5;

constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"float64", at::kDouble}, {"float32", at::kFloat}, {"int64", at::kLong}, {"int32", at::kInt}, {"bool", at::kBool}};

absl::Status Fault(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string TextOf(const value* text) {
  return text != nullptr && text->is_string() ? std::string(text->get_string()) : "";
}

absl::StatusOr<at::ScalarType> TypeOf(const value& named) {
  const std::string name = TextOf(base::Find(named, "dtype"));
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return Fault("it has an unknown number type");
}

// Reads a number, a bool, or {"float": "inf"}.
absl::StatusOr<at::Scalar> ScalarOf(const value& number) {
  if (number.is_bool()) return at::Scalar(number.get_bool());
  if (number.is_int64()) return at::Scalar(number.get_int64());
  if (number.is_double()) return at::Scalar(number.get_double());
  const std::string name = TextOf(base::Find(number, "float"));
  if (name == "inf") return at::Scalar(std::numeric_limits<double>::infinity());
  if (name == "-inf") return at::Scalar(-std::numeric_limits<double>::infinity());
  if (name == "nan") return at::Scalar(std::numeric_limits<double>::quiet_NaN());
  return Fault("it has an argument that is not a number");
}

absl::StatusOr<c10::IValue> IntegersOf(const value& list) {
  std::vector<int64_t> integers;
  if (list.is_int64()) integers.push_back(list.get_int64());
  if (list.is_array()) {
    for (const value& each : list.get_array()) {
      if (!each.is_int64()) return Fault("it has an argument that is not a list of integers");
      integers.push_back(each.get_int64());
    }
  }
  return c10::IValue(std::move(integers));
}

// Returns the argument, converted to its type in the operation's schema.
absl::StatusOr<c10::IValue> ArgumentOf(const value& given, const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (base::Find(given, "dtype") != nullptr) {
    INGOT_ASSIGN_OR_RETURN(const at::ScalarType named, TypeOf(given));
    return c10::IValue(named);
  }
  if (type->kind() == c10::TypeKind::ListType) return IntegersOf(given);
  INGOT_ASSIGN_OR_RETURN(const at::Scalar number, ScalarOf(given));
  switch (type->kind()) {
    case c10::TypeKind::BoolType:
      return c10::IValue(number.toBool());
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (!number.isIntegral(/*includeBool=*/true)) break;
      return c10::IValue(number.toLong());
    case c10::TypeKind::FloatType:
      return c10::IValue(number.toDouble());
    case c10::TypeKind::NumberType:
      return c10::IValue(number);
    case c10::TypeKind::TensorType:  // as in Python's 2 * x: the other tensor's type takes precedence
      return c10::IValue(at::native::wrapped_scalar_tensor(number));
    default:
      break;
  }
  return Fault(absl::StrCat("its argument ", argument.name(), " cannot be a number"));
}

struct Node {
  std::optional<c10::OperatorHandle> operation;  // empty = a constant
  at::Tensor constant;
  std::vector<c10::IValue> arguments;            // the schema's arguments, in order
  std::vector<std::pair<size_t, size_t>> links;  // (argument, index of its value)
  std::string line;                              // line in the user's file
};

absl::StatusOr<size_t> IndexOf(const value& index, size_t end) {
  if (!index.is_int64() || index.get_int64() < 0 || static_cast<size_t>(index.get_int64()) >= end) {
    return Fault("it refers to a value that does not exist yet");
  }
  return static_cast<size_t>(index.get_int64());
}

absl::StatusOr<Node> ConstantOf(const value& json, const value& number) {
  Node node;
  INGOT_ASSIGN_OR_RETURN(const at::Scalar scalar, ScalarOf(number));
  const value* named = base::Find(json, "dtype");
  INGOT_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(named == nullptr ? json : *named));
  node.constant = at::scalar_tensor(scalar, at::TensorOptions(type));
  return node;
}

// Adds the argument to the node. `end` is the number of values before the node.
absl::Status AddArgument(const c10::Argument& argument, const value* given, size_t end, const Operation& operation,
                         Node& node) {
  if (given == nullptr) {
    if (!argument.default_value()) return Fault(absl::StrCat("its argument ", argument.name(), " is missing"));
    node.arguments.push_back(*argument.default_value());
    return absl::OkStatus();
  }
  const bool index = operation.kind == OperationKind::kSegments && argument.name() == "index";
  const value* link = base::Find(*given, "node");
  if (link == nullptr && !index) {
    INGOT_ASSIGN_OR_RETURN(c10::IValue converted, ArgumentOf(*given, argument));
    node.arguments.push_back(std::move(converted));
    return absl::OkStatus();
  }
  INGOT_ASSIGN_OR_RETURN(const size_t at, IndexOf(link == nullptr ? value() : *link, end));
  if (index && at != kSegmentsInput && at != kEpisodesInput) {
    return Fault("its index must be the argument segments or episodes of the function, as in ingot_loss.segment_sum");
  }
  node.links.emplace_back(node.arguments.size(), at);
  node.arguments.emplace_back();
  return absl::OkStatus();
}

absl::StatusOr<Node> OperationOf(const value& json, size_t end, OperationKind& kind) {
  const std::string name = TextOf(base::Find(json, "op"));
  const Operation* operation = FindLossOperation(name);
  if (operation == nullptr) return Fault(absl::StrCat("the operation ", base::Shown(name), " is not allowed"));
  kind = operation->kind;
  const size_t dot = name.find('.');
  Node node;
  node.operation = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!node.operation) return Fault(absl::StrCat("this version of torch has no operation ", name));
  const value* given = base::Find(json, "args");
  if (given == nullptr || !given->is_object()) return Fault("it has no arguments");
  const std::vector<c10::Argument>& arguments = node.operation->schema().arguments();
  for (const auto& [argument, unused] : given->get_object()) {
    if (std::ranges::count(arguments, std::string(argument), &c10::Argument::name) == 0) {
      return Fault(absl::StrCat(name, " has no argument ", base::Shown(std::string(argument))));
    }
  }
  for (const c10::Argument& argument : arguments) {
    INGOT_RETURN_IF_ERROR(AddArgument(argument, base::Find(*given, argument.name()), end, *operation, node));
  }
  return node;
}

absl::StatusOr<Node> NodeOf(const value& json, size_t end, OperationKind& kind) {
  const value* constant = base::Find(json, "constant");
  INGOT_ASSIGN_OR_RETURN(Node node, constant != nullptr ? ConstantOf(json, *constant) : OperationOf(json, end, kind));
  node.line = base::Shown(TextOf(base::Find(json, "line")));
  return node;
}

bool IsMetricName(std::string_view name) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxMetricName && std::ranges::all_of(name, fits);
}

absl::Status CheckInputs(const value& graph) {
  const value* inputs = base::Find(graph, "inputs");
  bool same = inputs != nullptr && inputs->is_array() && inputs->get_array().size() == kInputs.size();
  for (size_t i = 0; same && i < kInputs.size(); ++i) same = TextOf(&inputs->get_array()[i]) == kInputs[i];
  return same ? absl::OkStatus() : Fault(absl::StrCat("its inputs must be ", absl::StrJoin(kInputs, ", ")));
}

}  // namespace

struct LossGraph::Body {
  std::vector<Node> nodes;
  size_t loss = 0;
  std::vector<std::pair<std::string, size_t>> metrics;
  bool per_token = true;

  size_t end() const { return kInputs.size() + nodes.size(); }
  absl::Status AddNodes(const value& graph);
  absl::Status SetResults(const value& graph);
};

absl::Status LossGraph::Body::AddNodes(const value& graph) {
  const value* list = base::Find(graph, "nodes");
  if (list == nullptr || !list->is_array()) return Fault("it has no nodes");
  if (list->get_array().size() > kMaxNodes) {
    return Fault(absl::StrCat("it has ", list->get_array().size(), " nodes, more than ", kMaxNodes));
  }
  for (const value& json : list->get_array()) {
    OperationKind kind = OperationKind::kPerToken;
    absl::StatusOr<Node> node = NodeOf(json, end(), kind);
    if (!node.ok()) return base::Annotate(node.status(), absl::StrCat("node ", nodes.size()));
    per_token = per_token && kind == OperationKind::kPerToken;
    nodes.push_back(*std::move(node));
  }
  return absl::OkStatus();
}

absl::Status LossGraph::Body::SetResults(const value& graph) {
  const value* result = base::Find(graph, "loss");
  INGOT_ASSIGN_OR_RETURN(loss, IndexOf(result == nullptr ? value() : *result, end()));
  const value* named = base::Find(graph, "metrics");
  if (named == nullptr || !named->is_object() || named->get_object().size() > kMaxMetrics) {
    return Fault(absl::StrCat("its metrics must be an object with at most ", kMaxMetrics, " fields"));
  }
  for (const auto& [name, index] : named->get_object()) {
    if (!IsMetricName(name)) {
      return Fault(absl::StrCat("its metric ", base::Shown(std::string(name)),
                                " must have a name of letters, digits, and _.-, at most ", kMaxMetricName,
                                " characters long"));
    }
    INGOT_ASSIGN_OR_RETURN(const size_t at, IndexOf(index, end()));
    metrics.emplace_back(std::string(name), at);
  }
  return absl::OkStatus();
}

LossGraph::LossGraph(std::unique_ptr<const Body> body) : body_(std::move(body)) {}
LossGraph::LossGraph(LossGraph&& other) noexcept = default;
LossGraph& LossGraph::operator=(LossGraph&& other) noexcept = default;
LossGraph::~LossGraph() = default;

absl::StatusOr<LossGraph> LossGraph::Parse(const std::string& json) {
  INGOT_ASSIGN_OR_RETURN(const value graph, base::ParseJson(json));
  auto body = std::make_unique<Body>();
  INGOT_RETURN_IF_ERROR(CheckInputs(graph));
  INGOT_RETURN_IF_ERROR(body->AddNodes(graph));
  INGOT_RETURN_IF_ERROR(body->SetResults(graph));
  return LossGraph(std::move(body));
}

bool LossGraph::per_token() const { return body_->per_token; }
bool LossGraph::has_metrics() const { return !body_->metrics.empty(); }

LossGraph::Values LossGraph::Run(const LossInputs& inputs) const {
  std::vector<c10::IValue> values = {inputs.logprobs, inputs.rollout_logprobs, inputs.advantages,
                                     inputs.mask,     inputs.segments,         inputs.episodes};
  for (const Node& node : body_->nodes) {
    if (!node.operation) {
      values.emplace_back(node.constant);
      continue;
    }
    std::vector<c10::IValue> stack = node.arguments;
    for (const auto& [argument, from] : node.links) stack[argument] = values[from];
    OrThrow(AtTorchEdge(node.line, [&]() -> absl::Status {
      node.operation->callBoxed(stack);
      return absl::OkStatus();
    }));
    values.push_back(std::move(stack.front()));  // log_sigmoid_forward has a second result, a buffer
  }
  Values results;
  results.loss = values[body_->loss].toTensor();
  for (const auto& [name, at] : body_->metrics) results.metrics.emplace_back(name, values[at].toTensor());
  return results;
}

}  // namespace ingot::trainer
