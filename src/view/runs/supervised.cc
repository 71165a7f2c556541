#include "view/runs/supervised.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace ingot::view {
namespace {

constexpr std::array<const char*, 2> kStages{"sft", "dpo"};

// Other metrics, such as tree/speedup, also belong to reinforcement steps.
bool IsOfStage(std::string_view metric) { return metric.starts_with("sft/") || metric.starts_with("dpo/"); }

}  // namespace

std::optional<Row> NewestSupervised(const Rows& rows) {
  std::optional<Row> newest;
  for (const char* stage : kStages) {
    const std::vector<Row> last = rows.Last(fmt::format("{}/tokens_per_second", stage), 1);
    if (!last.empty() && (!newest || last.front().step > newest->step)) newest = last.front();
  }
  return newest;
}

std::vector<std::pair<std::string, std::string>> SupervisedFigures(const Row& step) {
  std::vector<std::pair<std::string, std::string>> figures;
  for (const auto& [metric, name] :
       {std::pair("sft/loss", "loss"), std::pair("dpo/loss", "preference loss"), std::pair("sft/nll", "nll"),
        std::pair("dpo/accuracy", "preference accuracy"), std::pair("sft/tokens_per_second", "tokens per second"),
        std::pair("dpo/tokens_per_second", "tokens per second")}) {
    if (step.Has(metric)) figures.emplace_back(name, fmt::format("{:.4g}", step.Get(metric)));
  }
  return figures;
}

std::vector<std::string> NamesOf(const Rows& record, const Rows* warm_start) {
  std::vector<std::string> names = record.Names();
  if (warm_start == nullptr) return names;
  for (std::string& name : warm_start->Names()) {
    if (IsOfStage(name)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const Rows& RecordOf(const std::string& metric, const Rows& record, const Rows* warm_start) {
  if (warm_start == nullptr || !IsOfStage(metric) || !record.Last(metric, 1).empty()) return record;
  return *warm_start;
}

}  // namespace ingot::view
