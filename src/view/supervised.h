// The supervised steps of a run in its records. A supervised run has them in its own record. A warm start has a
// separate record next to the run's record, and counts its steps from 0.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "view/rows.h"

namespace ingot::view {

// The newest supervised step of a record; nullopt = no such step.
std::optional<Row> NewestSupervised(const Rows& rows);

// The figures of such a step for display, as ("loss", "0.1234"); a skipped step has no loss.
std::vector<std::pair<std::string, std::string>> SupervisedFigures(const Row& step);

// All metrics of the run's record, with the metrics of its warm start's stages. Null = no warm start.
std::vector<std::string> NamesOf(const Rows& record, const Rows* warm_start);

// The record that has the metric; the run's record if both have it.
const Rows& RecordOf(const std::string& metric, const Rows& record, const Rows* warm_start);

}  // namespace ingot::view
