// Finds a run's supervised steps. A supervised run has them in its own record. A warm start has a separate record next
// to the run's record and counts its steps from 0.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "view/rows.h"

namespace ingot::view {

// Returns the newest supervised step in a record, or nullopt if there is none.
std::optional<Row> NewestSupervised(const Rows& rows);

// Returns a supervised step's metrics for display, such as ("loss", "0.1234"). A skipped step has no loss.
std::vector<std::pair<std::string, std::string>> SupervisedFigures(const Row& step);

// Returns all metric names in the run's record and its warm start's stages. Null = no warm start.
std::vector<std::string> NamesOf(const Rows& record, const Rows* warm_start);

// Returns the record that has the metric, or the run's record if both have it.
const Rows& RecordOf(const std::string& metric, const Rows& record, const Rows* warm_start);

}  // namespace ingot::view
