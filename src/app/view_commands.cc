#include "app/view_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/completion.h"
#include "app/process.h"
#include "app/run_config.h"

namespace ingot::app {

std::function<int()> DeclareView(CLI::App& parser) {
  const auto args = std::make_shared<ViewArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  parser.add_option("--host", args->host, "address to listen on")->capture_default_str();
  parser.add_option("--port", args->port, "port; 0 takes a free one")->capture_default_str();
  parser.add_flag("--files", args->files, "read the run's files, also if its process serves a page");
  return [args] { return View(*args); };
}

std::function<int()> DeclareReport(CLI::App& parser) {
  const auto args = std::make_shared<ReportArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  parser.add_option("out", args->out, "the HTML file to write; default: NAME.html");
  return [args] { return Report(*args); };
}

std::function<int()> DeclareCompare(CLI::App& parser) {
  const auto args = std::make_shared<CompareArgs>();
  parser.add_option("run_dirs", args->run_dirs, "runs' folders; the others are compared with the first")->required();
  parser.add_option("--html", args->html, "also write the curves, one HTML file");
  return [args] { return Compare(*args); };
}

std::function<int()> DeclareConfigSchema(CLI::App&) {
  return [] { return ConfigSchema(); };
}

std::function<int()> DeclareInit(CLI::App& parser) {
  const auto folder = std::make_shared<std::string>();
  parser.add_option("folder", *folder, "the folder to make")->required();
  return [folder] { return Init(*folder); };
}

std::function<int()> DeclareDoctor(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  parser.add_option("config", args->config, "a run's YAML file, for its ports and folders; default: the defaults");
  return [args] { return Doctor(*args); };
}

std::function<int()> DeclareCompletion(CLI::App& parser) {
  return [shell = parser.get_name()] {
    const absl::StatusOr<std::string> script = CompletionScript(shell);
    if (!script.ok()) return Fail(script.status());
    std::printf("%s", script->c_str());
    return 0;
  };
}

std::function<int()> DeclareCompletionWords(CLI::App& parser) {
  parser.prefix_command();  // takes the words as they are
  CLI::App* const self = &parser;
  return [self] {
    CLI::App* root = self;
    while (root->get_parent() != nullptr) root = root->get_parent();
    RunConfig config;
    for (const std::string& word : Completions(*root, self->remaining(), BindSchema(config).Keys())) {
      std::printf("%s\n", word.c_str());
    }
    return 0;
  };
}

}  // namespace ingot::app
