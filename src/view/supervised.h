// The supervised steps of a run in its records. A supervised run has them in its own; a warm start has a record beside that
// of the run, and counts its steps from 0.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "view/rows.h"

namespace ingot::view {

// The newest supervised step of a record; nullopt = it has none.
std::optional<Row> NewestSupervised(const Rows& rows);

// The figures of such a step for people, as ("loss", "0.1234"); a skipped step has no loss.
std::vector<std::pair<std::string, std::string>> SupervisedFigures(const Row& step);

// All metrics of the run's record, with the metrics of its warm start's stages. Null = there was no warm start.
std::vector<std::string> NamesOf(const Rows& record, const Rows* warm_start);

// The record that has the metric: that of the run if it does.
const Rows& RecordOf(const std::string& metric, const Rows& record, const Rows* warm_start);

}  // namespace ingot::view
