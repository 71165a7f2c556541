#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/record/export.h"
#include "app/commands/record/inspect.h"
#include "app/commands/record/report.h"
#include "app/commands/record/view.h"

namespace ingot::app {
namespace {

Command::Run DeclareInspect(CLI::App& parser) {
  const auto args = std::make_shared<InspectArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  parser.add_option("episode", args->episode, "an episode id, or GROUP/SAMPLE; without it, a list");
  parser.add_option("--limit", args->limit,
                    "maximum number of episodes to list of each kind: training, evaluation, and `ingot serve`; 0: all; "
                    "default: 20, or all with --json");
  parser.add_option("--reward", args->reward,
                    "list only episodes with this reward: a number, or LOW:HIGH such as 0.5:");
  parser.add_option("--domain", args->domain, "list only episodes whose task has this domain");
  parser.add_option("--scaffold", args->scaffold, "list only episodes of this recipe");
  parser.add_option("--step", args->step, "list only the groups that this step trained, and this version's evaluation");
  parser.add_flag("--alternatives", args->alternatives,
                  "each sampled token of the episode with its recorded alternatives (rollout.record_alternatives)");
  parser.add_flag("--json", args->json, "print stored records as JSON; in a list, one record per line, with its calls");
  parser.add_flag("--journal", args->journal, "print the run's journal, one JSON record per line");
  return [args] { return Inspect(*args); };
}

Command::Run DeclareView(CLI::App& parser) {
  const auto args = std::make_shared<ViewArgs>();
  parser
      .add_option("run_dir", args->run_dir, "a run's folder, such as runs/NAME, or a folder with runs, to compare them")
      ->required();
  parser.add_option("--host", args->host, "address to listen on")->capture_default_str();
  parser.add_option("--port", args->port, "port to listen on; 0: any free port")->capture_default_str();
  parser.add_option("--tls-certificate", args->tls_certificate,
                    "PEM file with the certificate for HTTPS; default: the run's certificate, if it has one");
  parser.add_option("--tls-key", args->tls_key, "PEM file of the certificate's private key");
  parser.add_flag("--allow-plaintext", args->allow_plaintext, "allow an address other than loopback without TLS");
  AddSites(parser, args->allow_hosts, args->allow_origins);
  parser.add_flag("--files", args->files, "read the run's files, even if its process serves a page");
  return [args] { return View(*args); };
}

Command::Run DeclareReport(CLI::App& parser) {
  const auto args = std::make_shared<ReportArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  parser.add_option("out", args->out, "HTML file to write; default: NAME.html, unless another file has that name");
  return [args] { return Report(*args); };
}

Command::Run DeclareCompare(CLI::App& parser) {
  const auto args = std::make_shared<CompareArgs>();
  parser.add_option("run_dirs", args->run_dirs, "run folders; the others are compared with the first")->required();
  parser.add_option("--html", args->html, "also write the curves to this HTML file");
  parser.add_flag("--json", args->json, "print one JSON object instead of the table");
  return [args] { return Compare(*args); };
}

Command::Run DeclareExport(CLI::App& parser) {
  const auto args = std::make_shared<ExportArgs>();
  parser.add_option("run", args->run_dir, "the run's folder")->required();
  parser.add_option("out", args->out, "file to write, as JSON lines for data.sft or data.dpo")->required();
  parser
      .add_option("--as", args->as,
                  "sft: correct episodes; dpo: pairs in which the chosen episode is the shortest correct one of its "
                  "group; atif: every finished episode, as a Harbor trajectory")
      ->check(CLI::IsMember({"sft", "dpo", "atif"}))
      ->capture_default_str();
  parser.add_option("--above", args->above, "an episode is correct if its outcome is above this")
      ->capture_default_str();
  parser.add_flag("--shortest", args->shortest, "sft: only the shortest correct episode of each group");
  parser.add_option("--recall", args->recall,
                    "sft: signal with an episode's recall, to select by instead of the outcome");
  parser
      .add_option("--recall-high", args->recall_high,
                  "keep all episodes with at least this recall, and fewer of the others, in proportion to their recall")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  parser.add_option("--zero-share", args->zero_share, "maximum share of episodes with recall 0")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  return [args] { return Export(*args); };
}

}  // namespace

std::vector<Command> RecordCommands() {
  return {
      {"inspect", "print a run's trajectories as trees", DeclareInspect},
      {.name = "view",
       .summary = "serve a run's page, or print a link to it",
       .declare = DeclareView,
       .holds_keys = true},
      {"report", "write a run's report to an HTML file", DeclareReport},
      {"compare", "compare the rewards and evaluations of runs, with confidence intervals", DeclareCompare},
      {"export", "write a run's correct episodes as data for supervised training", DeclareExport},
  };
}

}  // namespace ingot::app
