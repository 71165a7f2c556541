#include "view/evaluation/eval_table.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/printable.h"

namespace ingot::view {
namespace {

using Line = std::vector<std::string>;

EvalRow RowOf(const EvalPart& part, const std::string& scaffold, const std::string& set,
              const std::vector<int64_t>& more_k) {
  EvalRow row;
  row.scaffold = scaffold;
  row.set = set;
  row.tasks = std::ssize(part.tasks);
  row.episodes = part.episodes;
  std::vector<double> rewards;
  for (const auto& [group, task] : part.tasks) {
    rewards.push_back(task.reward / static_cast<double>(task.samples));
    row.samples = std::max(row.samples, task.samples);
  }
  row.reward = EstimateOf(rewards);
  for (const int64_t k : PassesOf(part, more_k)) {
    std::vector<double> passes;
    for (const auto& [group, task] : part.tasks) {
      if (task.samples >= k) passes.push_back(PassAtK(task.samples, task.successes, k));
    }
    row.pass[k] = EstimateOf(passes);
  }
  const auto episodes = static_cast<double>(part.episodes);
  row.tokens = part.tokens / episodes;
  row.turns = part.turns / episodes;
  row.seconds = part.seconds / episodes;
  if (part.with_tool_errors > 0) row.tool_errors = part.tool_errors / static_cast<double>(part.with_tool_errors);
  return row;
}

std::vector<int64_t> ShownPasses(const std::vector<EvalRow>& rows, const std::vector<int64_t>& k) {
  if (!k.empty()) return k;
  std::set<int64_t> all;
  for (const EvalRow& row : rows) {
    for (const auto& [each, pass] : row.pass) all.insert(each);
  }
  if (all.size() < 2) return {all.begin(), all.end()};
  return {*all.begin(), *all.rbegin()};
}

std::string Cell(const Estimate& estimate) {
  if (estimate.values < 2) return fmt::format("{:.4f}", estimate.mean);
  return fmt::format("{:.4f} ({:.4f} to {:.4f})", estimate.mean, estimate.low, estimate.high);
}

Line LineOf(const EvalRow& row, const std::vector<int64_t>& passes) {
  Line line{row.scaffold.empty() ? "mixed" : base::Printable(row.scaffold),
            row.set.empty() ? "all" : base::Printable(row.set), std::to_string(row.tasks), std::to_string(row.samples),
            Cell(row.reward)};
  for (const int64_t k : passes) line.push_back(row.pass.contains(k) ? Cell(row.pass.at(k)) : "–");
  line.push_back(fmt::format("{:.1f}", row.tokens));
  line.push_back(fmt::format("{:.1f}", row.turns));
  line.push_back(fmt::format("{:.2f}", row.seconds));
  line.push_back(row.tool_errors ? fmt::format("{:.3f}", *row.tool_errors) : "–");
  return line;
}

}  // namespace

std::vector<EvalRow> EvalRows(const EvalFigures& figures, const std::string& scaffold, const std::vector<int64_t>& k) {
  std::vector<EvalRow> rows;
  if (figures.all().episodes == 0) return rows;
  for (const auto& [set, part] : figures.by_set()) rows.push_back(RowOf(part, scaffold, set, k));
  if (rows.size() != 1) rows.push_back(RowOf(figures.all(), scaffold, "", k));
  return rows;
}

std::string EvalTableText(const std::vector<EvalRow>& rows, const std::vector<int64_t>& k) {
  const std::vector<int64_t> passes = ShownPasses(rows, k);
  Line header{"scaffold", "set", "tasks", "n", "avg@n (95 %)"};
  for (const int64_t each : passes) header.push_back(fmt::format("pass@{} (95 %)", each));
  header.insert(header.end(), {"tokens", "turns", "seconds", "tool errors"});
  std::vector<Line> lines{header};
  for (const EvalRow& row : rows) lines.push_back(LineOf(row, passes));
  std::vector<size_t> widths(header.size());
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string one;
    for (size_t i = 0; i < line.size(); ++i) one += fmt::format("{:<{}}  ", line[i], widths[i]);
    text += one.substr(0, one.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

base::json::array EvalTableJson(const std::vector<EvalRow>& rows) {
  base::json::array json;
  for (const EvalRow& row : rows) {
    base::json::object passes;
    for (const auto& [k, pass] : row.pass) passes[std::to_string(k)] = EstimateJson(pass);
    base::json::value tool_errors = nullptr;
    if (row.tool_errors) tool_errors = *row.tool_errors;
    json.push_back(base::json::object{{"scaffold", base::Printable(row.scaffold)},
                                      {"set", base::Printable(row.set)},
                                      {"tasks", row.tasks},
                                      {"episodes", row.episodes},
                                      {"samples", row.samples},
                                      {"avg", EstimateJson(row.reward)},
                                      {"pass", passes},
                                      {"response_length", row.tokens},
                                      {"turns", row.turns},
                                      {"seconds", row.seconds},
                                      {"tool_error_rate", tool_errors}});
  }
  return json;
}

}  // namespace ingot::view
