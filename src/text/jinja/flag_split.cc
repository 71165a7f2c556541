#include "text/jinja/flag_split.h"

#include <algorithm>

namespace ingot::text::jinja {
namespace {

bool Names(const Block& block, int slot);

bool Names(const Expr& expr, int slot) {
  const auto names = [slot](const ExprPtr& child) { return child != nullptr && Names(*child, slot); };
  // A namespace attribute as a target has the namespace's slot.
  if ((expr.kind == Expr::Kind::kName || expr.kind == Expr::Kind::kAttribute) && expr.slot == slot) return true;
  const CallArguments& call = expr.arguments;
  return std::any_of(expr.items.begin(), expr.items.end(), names) ||
         std::any_of(call.positional.begin(), call.positional.end(), names) ||
         std::any_of(call.named.begin(), call.named.end(), [&](const auto& named) { return names(named.second); }) ||
         names(call.star) || names(call.double_star);
}

bool Names(const Stmt& statement, int slot) {
  const auto names = [slot](const ExprPtr& child) { return child != nullptr && Names(*child, slot); };
  const Signature& signature = statement.signature;
  return statement.slot == slot || names(statement.target) ||
         std::any_of(statement.targets.begin(), statement.targets.end(), names) ||
         std::any_of(statement.exprs.begin(), statement.exprs.end(), names) ||
         std::any_of(statement.branches.begin(), statement.branches.end(),
                     [&](const auto& branch) { return names(branch.first) || Names(branch.second, slot); }) ||
         Names(statement.body, slot) || Names(statement.else_body, slot) ||
         std::any_of(signature.names.begin(), signature.names.end(),
                     [slot](const auto& name) { return name.second == slot; }) ||
         std::any_of(signature.defaults.begin(), signature.defaults.end(), names);
}

bool Names(const Block& block, int slot) {
  return std::any_of(block.begin(), block.end(), [slot](const auto& statement) { return Names(*statement, slot); });
}

// Returns true if a second evaluation gives the same value. That is not certain if a filter, a loop, or `in` consumes a
// generator, or if a macro changes a namespace.
bool IsRepeatable(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kConst:
    case Expr::Kind::kName:
    case Expr::Kind::kAttribute:
    case Expr::Kind::kItem:
    case Expr::Kind::kNot:
    case Expr::Kind::kNegate:
    case Expr::Kind::kPlus:
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr:
    case Expr::Kind::kBinary:
    case Expr::Kind::kConcat:
    case Expr::Kind::kCondition:
      break;
    case Expr::Kind::kTest:
      if (expr.text != "defined" && expr.text != "undefined" && expr.text != "none" && expr.text != "true" &&
          expr.text != "false") {
        return false;
      }
      break;
    case Expr::Kind::kCompare:
      for (const std::string& op : expr.ops) {
        if (op != "==" && op != "!=") return false;
      }
      break;
    default:
      return false;
  }
  return std::all_of(expr.items.begin(), expr.items.end(),
                     [](const ExprPtr& child) { return child == nullptr || IsRepeatable(*child); });
}

bool IsRepeatable(const Block& block);

bool IsRepeatable(const Stmt& statement) {
  const auto repeatable = [](const ExprPtr& expr) { return expr == nullptr || IsRepeatable(*expr); };
  if (!std::all_of(statement.exprs.begin(), statement.exprs.end(), repeatable)) return false;
  switch (statement.kind) {
    case Stmt::Kind::kOutput:
      return true;
    case Stmt::Kind::kSet:
      return statement.target->kind == Expr::Kind::kName;
    case Stmt::Kind::kIf:
      return IsRepeatable(statement.else_body) &&
             std::all_of(statement.branches.begin(), statement.branches.end(),
                         [](const auto& branch) { return IsRepeatable(*branch.first) && IsRepeatable(branch.second); });
    default:
      return false;
  }
}

bool IsRepeatable(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](const auto& statement) { return IsRepeatable(*statement); });
}

}  // namespace

std::optional<FlagSplit> SplitAt(const Ast& ast, std::string_view flag) {
  FlagSplit split;
  const auto name = std::find(ast.names.begin(), ast.names.end(), flag);
  if (name == ast.names.end()) return FlagSplit{-1, ast.body.size()};
  split.slot = static_cast<int>(name - ast.names.begin());
  while (split.common < ast.body.size() && !Names(*ast.body[split.common], split.slot)) ++split.common;
  for (size_t i = split.common; i < ast.body.size(); ++i) {
    if (!IsRepeatable(*ast.body[i])) return std::nullopt;
  }
  return split;
}

}  // namespace ingot::text::jinja
