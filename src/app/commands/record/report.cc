// `ingot report` and `ingot compare`: show runs as HTML files and tables, based on their folders.
#include "app/commands/record/report.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "app/record/run_list.h"
#include "app/record/stored_run.h"
#include "app/run/process.h"
#include "app/terminal/path_tails.h"
#include "app/terminal/progress.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "view/evaluation/report.h"

namespace ingot::app {
namespace {

// A run read from its folder.
struct ReadRun {
  StoredRun stored;
  std::unique_ptr<view::Rows> rows, warm_start;
  view::Journal journal;
};

absl::StatusOr<std::unique_ptr<ReadRun>> ReadFolder(const std::string& folder, Progress& progress) {
  auto run = std::make_unique<ReadRun>();
  INGOT_ASSIGN_OR_RETURN(run->stored, OpenRunFolder(folder));
  run->rows = std::make_unique<view::Rows>(folder + "/metrics.jsonl");
  INGOT_RETURN_IF_ERROR(run->rows->Refresh());
  if (run->stored.no_pool.empty()) INGOT_RETURN_IF_ERROR(run->journal.Refresh(*run->stored.pool));
  if (const int64_t broken = run->rows->broken(); broken > 0) {
    progress.Clear();
    std::fprintf(stderr, "%s/metrics.jsonl: %ld rows cannot be read and are skipped\n", base::Printable(folder).c_str(),
                 static_cast<long>(broken));
  }
  run->warm_start = std::make_unique<view::Rows>(folder + "/warm_start/metrics.jsonl");
  INGOT_RETURN_IF_ERROR(run->warm_start->Refresh());
  return run;
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  INGOT_RETURN_IF_ERROR(base::WriteFileDurably(path, text));
  std::printf("%s: %zu bytes\n", base::Printable(path).c_str(), text.size());
  return absl::OkStatus();
}

// Returns the end of a report file, which identifies the report's run folder.
std::string MarkOf(const std::string& folder) {
  std::error_code error;
  return absl::StrCat("<!-- ", base::Hex(base::Checksum64(std::filesystem::weakly_canonical(folder, error).string())),
                      " -->\n");
}

// Returns NAME.html in the current directory, unless that is another run's report or one of the user's files.
absl::StatusOr<std::string> DefaultOut(const std::string& name, const std::string& mark) {
  const std::string path = name + ".html";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return path;
  const absl::StatusOr<std::string> there = base::ReadFile(path);
  if (there.ok() && there->ends_with(mark)) return path;
  return absl::AlreadyExistsError(absl::StrCat("'", path, "' already exists and is not a report of this run folder: ",
                                               "name another file, ingot report RUN FILE"));
}

absl::Status ReportOrError(const ReportArgs& args) {
  Progress progress("report");
  progress.Show("reading the run");
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<ReadRun> run, ReadFolder(args.run_dir, progress));
  const std::string mark = MarkOf(args.run_dir);
  std::string out = args.out;
  if (out.empty()) {
    INGOT_ASSIGN_OR_RETURN(out, DefaultOut(run->stored.config().name, mark));
  }
  INGOT_ASSIGN_OR_RETURN(const TextParts text, run->stored.Text());
  view::ReportInput input;
  input.name = run->stored.config().name;
  input.config = run->stored.loaded.schema.EffectiveYaml();
  input.rows = run->rows.get();
  input.warm_start = run->warm_start.get();
  input.no_pool = run->stored.no_pool;
  input.journal = &run->journal;
  input.pool = run->stored.pool.get();
  input.tokenizer = text.tokenizer.get();
  progress.Show("reading evaluations and trajectories");
  INGOT_ASSIGN_OR_RETURN(const std::string html, view::ReportHtml(input));
  progress.Clear();
  return WriteWhole(out, html + mark);
}

std::vector<view::ComparedRun::KeyDifference> DifferencesFrom(const StoredRun& first, const StoredRun& run) {
  std::vector<view::ComparedRun::KeyDifference> differences;
  for (const base::Schema::Difference& one : ConfigDifferences(first.loaded, run.loaded)) {
    differences.push_back({one.key, one.others, one.value});
  }
  return differences;
}

absl::Status CompareOrError(const CompareArgs& args) {
  std::vector<std::unique_ptr<ReadRun>> opened;
  std::vector<view::ComparedRun> runs;
  Progress progress("compare");
  const std::vector<std::string> names = PathTails(args.run_dirs);
  for (const std::string& folder : args.run_dirs) {
    progress.Show(absl::StrCat("reading ", folder), std::ssize(opened), std::ssize(args.run_dirs));
    auto read = ReadFolder(folder, progress);
    if (!read.ok()) return base::Annotate(read.status(), folder);
    view::ComparedRun run;
    run.name = base::Printable(names[opened.size()]);
    run.rows = (*read)->rows.get();
    run.warm_start = (*read)->warm_start.get();
    INGOT_RETURN_IF_ERROR(view::ReadEvaluation((*read)->stored.pool.get(), run));
    if (!opened.empty()) run.differences = DifferencesFrom(opened.front()->stored, (*read)->stored);
    opened.push_back(*std::move(read));
    runs.push_back(std::move(run));
  }
  progress.Clear();
  // Names are already printable.
  const std::string text = args.json ? base::PrintJson(view::CompareJson(runs)) + "\n" : view::CompareText(runs);
  std::printf("%s", text.c_str());
  return args.html.empty() ? absl::OkStatus() : WriteWhole(args.html, view::CompareHtml(runs));
}

}  // namespace

int Report(const ReportArgs& args) {
  const absl::Status status = ReportOrError(args);
  return status.ok() ? 0 : Fail(status);
}

int Compare(const CompareArgs& args) {
  const absl::Status status = CompareOrError(args);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
