#include "view/evaluation/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/log.h"
#include "tree/episode_return.h"
#include "tree/render.h"
#include "view/evaluation/svg_chart.h"
#include "view/runs/accounts.h"
#include "view/runs/supervised.h"

namespace ingot::view {
namespace {

constexpr size_t kPoints = 300;
constexpr size_t kAll = 1'000'000;
constexpr size_t kShown = 2;  // number of best trajectories and of worst trajectories

constexpr char kStyle[] = R"(<style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:24px auto;padding:0 16px;background:Canvas;color:CanvasText}
table{border-collapse:collapse;margin:8px 0}td,th{padding:3px 12px;border-bottom:1px solid #8886;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}figure{display:inline-block;width:500px;max-width:100%;margin:6px;vertical-align:top}
figcaption{font-weight:600}svg{width:100%;border:1px solid #8886}.grid{stroke:#8884;fill:none}.axis{fill:GrayText;font-size:11px}.curve{fill:none;stroke-width:1.5}
.key::before{content:"";display:inline-block;width:10px;height:10px;background:var(--c);margin:0 4px 0 8px}
figure p{margin:2px 0;font-size:13px}pre{white-space:pre-wrap;overflow-wrap:anywhere;direction:ltr;unicode-bidi:isolate-override;border:1px solid #8886;padding:8px;font-size:13px}
</style>
)";

std::string Head(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
         "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>" +
         HtmlText(title) + "</title>\n" + kStyle + "</head><body>\n<h1>" + HtmlText(title) + "</h1>\n";
}
constexpr char kFoot[] = "</body></html>\n";

struct Chart {
  const char* title;
  std::vector<const char*> names;
};
const std::vector<Chart>& Charts() {
  static const std::vector<Chart> charts = {
      {"Reward", {"reward/mean", "eval/reward_mean", "eval/graded_mean"}},
      {"Entropy, nats", {"actor/entropy"}},
      {"Share of clipped tokens", {"actor/clipfrac_low", "actor/clipfrac_high"}},
      {"Gradient norm", {"actor/grad_norm"}},
      {"Staleness, versions", {"async/staleness_mean", "async/staleness_max"}},
      {"Off-policy k3", {"offpolicy/k3_kl"}},
      {"Rollout and trainer mismatch", {"mismatch/logprob_abs_diff_max"}},
      {"Tokens per second", {"perf/tokens_per_second", "rollout/sampled_tokens_per_second"}},
      {"Idle share", {"trainer/idle_ratio", "rollout/idle_ratio"}},
      {"Response length, tokens", {"response_length/mean"}},
      {"Turns", {"num_turns/mean"}},
      {"Share of zero-variance groups", {"reward/frac_zero_std"}},
      {"Supervised loss", {"sft/loss", "sft/nll", "dpo/loss"}},
      {"Preference accuracy", {"dpo/accuracy"}},
      {"Preference margin", {"dpo/margin_mean"}},
      {"Supervised gradient norm", {"sft/grad_norm", "dpo/grad_norm"}},
      {"Supervised tokens per second", {"sft/tokens_per_second", "dpo/tokens_per_second"}}};
  return charts;
}

SvgSeries SeriesOf(const Rows& rows, const std::string& metric, const std::string& label) {
  const Curve curve = rows.CurveOf(metric, kPoints);
  return {label, curve.steps, curve.mean};
}

// Charts every curve whose name is `prefix` plus a term's name, in enough charts to give each curve its own color.
std::string TermCharts(const Rows& rows, const std::string& title, const std::string& prefix) {
  std::vector<SvgSeries> terms;
  for (const std::string& name : rows.Names()) {
    const bool whole = name.find_first_of("/@", std::min(prefix.size(), name.size())) == std::string::npos;
    if (name.starts_with(prefix) && whole) terms.push_back(SeriesOf(rows, name, name.substr(prefix.size())));
  }
  std::string html;
  for (size_t i = 0; i < terms.size(); i += kSvgColours) {
    const size_t end = std::min(i + kSvgColours, terms.size());
    const std::string part =
        terms.size() > kSvgColours ? fmt::format(", {} to {} of {}", i + 1, end, terms.size()) : "";
    html += SvgChart(title + part, {terms.begin() + static_cast<std::ptrdiff_t>(i),
                                    terms.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  return html;
}

std::string Curves(const Rows& rows, const Rows* warm_start) {
  std::string html = "<h2>Curves</h2>\n";
  for (const Chart& chart : Charts()) {
    std::vector<SvgSeries> series;
    for (const char* name : chart.names) {
      SvgSeries one = SeriesOf(RecordOf(name, rows, warm_start), name, name);
      if (!one.x.empty()) series.push_back(std::move(one));
    }
    if (!series.empty()) html += SvgChart(chart.title, series);
  }
  return html + TermCharts(rows, "Reward by role", "reward/batch_mean@role:") +
         TermCharts(rows, "Reward by term, before weights", "reward/term/") +
         TermCharts(rows, "Evaluation by reward term, before weights", "eval/term/") +
         TermCharts(rows, "Evaluation, pass@k by k", "eval/pass@") +
         TermCharts(rows, "Evaluation by set", "eval/reward_mean@set:");
}

std::string Seconds(const Rows& rows) {
  const SecondsAccount account = AccountSeconds(rows.Last("perf/step_seconds", kAll));
  if (account.wall <= 0) return "";
  std::string html = fmt::format(
      "<h2>Where the seconds went</h2>\n<p>{:.1f} s of wall clock; measured parts account for {:.2f}% of "
      "it.</p><table>",
      account.wall, 100 * account.measured / account.wall);
  for (const Part& part : account.parts) {
    html += fmt::format("<tr><td>{}</td><td class=\"n\">{:.1f} s</td><td class=\"n\">{:.1f}%</td></tr>\n", part.name,
                        part.amount, 100 * part.amount / account.wall);
  }
  return html + "</table>\n";
}

absl::StatusOr<std::string> Evaluations(const ReportInput& run) {
  const std::map<int64_t, double> versions = EvaluatedVersions(*run.rows);
  if (versions.empty()) return std::string();
  const std::map<int64_t, std::map<int64_t, double>> passes = EvaluatedPasses(*run.rows);
  std::set<int64_t> ks;
  for (const auto& [version, by_k] : passes) {
    for (const auto& [k, pass] : by_k) ks.insert(k);
  }
  std::string html = "<h2>Evaluations</h2>\n<table><tr><th>version</th><th>reward, 95 % over tasks</th><th>tasks</th>";
  for (const int64_t k : ks) html += fmt::format("<th>pass@{}</th>", k);
  html += "</tr>\n";
  for (const auto& [version, mean] : versions) {
    TaskRewards tasks;
    if (run.no_pool.empty()) {
      INGOT_ASSIGN_OR_RETURN(tasks, EvaluatedTasks(*run.pool, version));
    }
    Estimate estimate = EstimateOf(tasks);
    if (tasks.empty()) estimate = {mean, mean, mean, 1};
    html += fmt::format("<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>", version,
                        IntervalText(estimate), tasks.empty() ? "trees deleted" : std::to_string(tasks.size()));
    const auto by_k = passes.find(version);
    for (const int64_t k : ks) {
      const bool has = by_k != passes.end() && by_k->second.contains(k);
      html += fmt::format("<td class=\"n\">{}</td>", has ? fmt::format("{:.4g}", by_k->second.at(k)) : "–");
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

// Renders the best and worst stored episodes in the newest batch that has any.
absl::StatusOr<std::string> Trajectories(const ReportInput& run) {
  if (!run.no_pool.empty()) return "<h2>Trajectories</h2><p>None: " + HtmlText(run.no_pool) + ".</p>\n";
  std::vector<v1::EpisodeTree> trees;
  for (int64_t step = run.journal->batches() - 1; step >= 0 && trees.empty(); --step) {
    const std::optional<JournalBatch> batch = run.journal->Batch(step);
    if (!batch) break;
    for (const int64_t id : batch->groups) {
      v1::GetGroupRequest request;
      request.set_group_id(id);
      absl::StatusOr<v1::Group> group = run.pool->GetGroup(request);
      if (absl::IsNotFound(group.status())) continue;
      INGOT_RETURN_IF_ERROR(group.status());
      for (v1::EpisodeTree& tree : *group->mutable_episodes()) trees.push_back(std::move(tree));
    }
  }
  if (trees.empty()) return std::string("<h2>Trajectories</h2><p>The pool no longer stores any.</p>\n");
  std::stable_sort(trees.begin(), trees.end(), [](const v1::EpisodeTree& a, const v1::EpisodeTree& b) {
    return tree::ReturnOf(a.episode()) > tree::ReturnOf(b.episode());
  });
  std::vector<size_t> shown;
  for (size_t i = 0; i < trees.size(); ++i) {
    if (i < kShown || i + kShown >= trees.size()) shown.push_back(i);
  }
  std::string html = "<h2>Trajectories of the last batch: the best and the worst</h2>\n";
  for (const size_t i : shown) {
    tree::RenderOptions options;
    options.max_text_bytes = 2000;
    INGOT_ASSIGN_OR_RETURN(
        const std::string text,
        tree::RenderTree(
            trees[i], [&](std::span<const int32_t> ids) { return run.tokenizer->Decode(ids, false); }, options));
    html += fmt::format("<details{}><summary>group {}, sample {}: reward {:.4g}</summary><pre>{}</pre></details>\n",
                        i == 0 ? " open" : "", trees[i].episode().ref().group_id(),
                        trees[i].episode().ref().sample_index(), tree::ReturnOf(trees[i].episode()), HtmlText(text));
  }
  return html;
}

std::string Figure(const std::string& meaning, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td class=\"n\">{}</td></tr>", meaning, value);
}

std::string Figures(const ReportInput& run) {
  std::string rows;
  const std::vector<Row> newest = run.rows->Last("perf/step_seconds", 10);
  if (!newest.empty()) {
    rows += Figure("steps", std::to_string(newest.back().step + 1));
    rows += Figure("reward of the last ten steps, 95 %", IntervalText(LastReward(*run.rows, 10)));
    if (run.no_pool.empty()) {
      rows += Figure("groups trained, dropped, failed",
                     fmt::format("{}, {}, {}", run.journal->Count(GroupState::kTrained),
                                 run.journal->Count(GroupState::kDropped), run.journal->Count(GroupState::kFailed)));
    }
    if (const std::optional<Efficiency> j = EfficiencyOf(newest)) {
      rows += Figure(fmt::format("J over the last {} steps, 95 %", j->steps),
                     fmt::format("{:.4g} ({:.4g} to {:.4g})", j->value, j->low, j->high));
    }
  }
  std::optional<Row> supervised = NewestSupervised(*run.rows);
  const bool warm_start = !supervised && run.warm_start != nullptr;
  if (warm_start) supervised = NewestSupervised(*run.warm_start);
  if (supervised) {
    rows += Figure(warm_start ? "warm-start steps" : "supervised steps", std::to_string(supervised->step + 1));
    for (const auto& [name, value] : SupervisedFigures(*supervised)) rows += Figure(name + ", last such step", value);
  }
  return rows.empty() ? "<p>The record has no steps.</p>\n" : "<table>" + rows + "</table>\n";
}

}  // namespace

absl::StatusOr<std::string> ReportHtml(const ReportInput& run) {
  std::string html = Head("Run " + run.name) + Figures(run);
  INGOT_ASSIGN_OR_RETURN(const std::string evaluations, Evaluations(run));
  INGOT_ASSIGN_OR_RETURN(const std::string trajectories, Trajectories(run));
  html += evaluations + Curves(*run.rows, run.warm_start) + Seconds(*run.rows) + trajectories;
  html += "<h2>Configuration</h2>\n<details><summary>Effective run.yaml</summary><pre>" + HtmlText(run.config) +
          "</pre></details>\n";
  return html + kFoot;
}

std::string CompareHtml(const std::vector<ComparedRun>& runs) {
  std::string html = Head("Comparison of runs") + "<pre>" + HtmlText(CompareText(runs)) + "</pre>\n";
  for (const Chart& chart : Charts()) {
    for (const char* name : chart.names) {
      std::vector<SvgSeries> series;
      for (const ComparedRun& run : runs) {
        SvgSeries one = SeriesOf(RecordOf(name, *run.rows, run.warm_start), name, run.name);
        if (!one.x.empty()) series.push_back(std::move(one));
      }
      if (!series.empty()) html += SvgChart(std::string(chart.title) + ": " + name, series);
    }
  }
  return html + kFoot;
}

}  // namespace ingot::view
