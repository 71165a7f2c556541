#include "view/runs/accounts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ingot::view {

SecondsAccount AccountSeconds(std::span<const Row> rows) {
  double wait = 0, data = 0, train = 0, figures = 0, probe = 0, trust = 0, spread = 0, publish = 0;
  double checkpoint = 0, record = 0, steps = 0;
  const Row* first = nullptr;
  const Row* last = nullptr;
  for (const Row& row : rows) {
    if (!row.Has("perf/step_seconds")) continue;
    if (first == nullptr) {
      first = &row;
    } else {
      record += row.Get("perf/record_seconds");  // for the previous step
    }
    last = &row;
    steps += row.Get("perf/step_seconds");
    wait += row.Get("perf/wait_seconds");
    data += row.Get("perf/data_seconds");
    probe += row.Get("perf/probe_seconds");
    trust += row.Get("perf/step_kl_seconds");
    spread += row.Get("perf/update_variance_seconds");
    train += row.Get("perf/train_seconds") - row.Get("perf/probe_seconds") - row.Get("perf/step_kl_seconds") -
             row.Get("perf/update_variance_seconds");
    // The share is relative to the whole training call. The seconds cover its passes and its update.
    if (row.Has("perf/share_training")) {
      figures += row.Get("perf/share_training") * row.Get("perf/step_seconds") - row.Get("perf/train_seconds");
    }
    publish += row.Get("perf/publish_seconds");
    checkpoint += row.Get("perf/checkpoint_seconds");
  }
  SecondsAccount account;
  if (first == nullptr) return account;
  account.wall = last->time - (first->time - first->Get("perf/step_seconds"));
  account.measured = wait + data + train + figures + probe + trust + spread + publish + checkpoint + record;
  account.parts = {{"waiting for a batch", wait},
                   {"packing", data},
                   {"training", train},
                   {"kernel rates and metrics", figures},
                   {"numerics probe", probe},
                   {"trust region", trust},
                   {"update variance", spread},
                   {"sending weights to the engines", publish},
                   {"checkpoints", checkpoint},
                   {"recording and evaluations", record},
                   {"between steps", account.wall - steps - record},
                   {"not named", steps + record - account.measured}};
  return account;
}

double StudentT95(int freedom) {
  constexpr std::array<double, 30> kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                             2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                             2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return freedom <= std::ssize(kTable) ? kTable[static_cast<size_t>(freedom - 1)] : 1.96;
}

std::optional<Efficiency> EfficiencyOf(std::span<const Row> rows) {
  std::vector<double> millions, rewards;
  double trained = 0, seconds = 0, tokens = 0;
  for (const Row& row : rows) {
    if (!row.Has("reward/mean") || !row.Has("batch/loss_tokens") || !row.Has("perf/tokens_per_second")) continue;
    trained += row.Get("batch/loss_tokens");
    millions.push_back(trained * 1e-6);
    rewards.push_back(row.Get("reward/mean"));
    const double step = row.Get("perf/step_seconds");
    seconds += step;
    tokens += row.Get("perf/tokens_per_second") * step;
  }
  const auto n = static_cast<double>(millions.size());
  if (millions.size() < 3 || seconds <= 0) return std::nullopt;
  double mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < millions.size(); ++i) {
    mean_x += millions[i] / n;
    mean_y += rewards[i] / n;
  }
  double xx = 0, xy = 0, yy = 0;
  for (size_t i = 0; i < millions.size(); ++i) {
    xx += (millions[i] - mean_x) * (millions[i] - mean_x);
    xy += (millions[i] - mean_x) * (rewards[i] - mean_y);
    yy += (rewards[i] - mean_y) * (rewards[i] - mean_y);
  }
  if (xx <= 0) return std::nullopt;
  Efficiency result;
  result.steps = static_cast<int>(millions.size());
  result.tokens_per_second = tokens / seconds;
  result.reward_per_million = xy / xx;
  const double error = std::sqrt(std::max(0.0, yy - xy * xy / xx) / (n - 2) / xx);
  const double margin = StudentT95(result.steps - 2) * error;
  result.value = result.tokens_per_second * result.reward_per_million;
  result.low = result.tokens_per_second * (result.reward_per_million - margin);
  result.high = result.tokens_per_second * (result.reward_per_million + margin);
  return result;
}

}  // namespace ingot::view
