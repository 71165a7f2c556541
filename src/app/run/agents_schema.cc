#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "app/run/role_schemas.h"

namespace ingot::app {
namespace {

void BindStep(base::Schema& schema, agents::StepOptions& o) { schema.Field("command", &o.command, "argv, templates"); }

// Binds the keys of verifiers that apply only to some kinds. A verifier of another kind may not set them.
class VerifierKeys {
 public:
  VerifierKeys(base::Schema& schema, const reward::VerifierOptions& verifier) : schema_(schema), verifier_(verifier) {}

  // The keys bound from here on are options of these kinds, in the section verifier.SECTION; empty = in `verifier`
  // itself.
  void Of(std::vector<std::string> kinds, const std::string& section = "") {
    kinds_ = std::move(kinds);
    prefix_ = section.empty() ? "verifier." : absl::StrCat("verifier.", section, ".");
    if (!section.empty()) Guard(absl::StrCat("verifier.", section));
  }
  template <typename T>
  void Field(const std::string& key, T* field, const std::string& doc) {
    if (prefix_ == "verifier.") Guard(prefix_ + key);
    schema_.Field(prefix_ + key, field, Doc(doc));
  }
  void Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
              const std::string& doc) {
    if (prefix_ == "verifier.") Guard(prefix_ + key);
    schema_.Choice(prefix_ + key, field, names, Doc(doc));
  }

 private:
  std::string Doc(const std::string& doc) const { return absl::StrCat(absl::StrJoin(kinds_, ", "), ": ", doc); }
  void Guard(const std::string& keys) {
    schema_.Guard(keys, [&verifier = verifier_, kinds = kinds_]() -> std::string {
      if (std::find(kinds.begin(), kinds.end(), verifier.kind) != kinds.end()) return "";
      return absl::StrCat("it is an option of verifiers of kind ", absl::StrJoin(kinds, ", "),
                          ", and this one is of kind ", verifier.kind);
    });
  }

  base::Schema& schema_;
  const reward::VerifierOptions& verifier_;
  std::vector<std::string> kinds_;
  std::string prefix_;
};

void BindVerifier(base::Schema& schema, reward::VerifierOptions& o) {
  schema.Choice("verifier.kind", &o.kind, reward::VerifierKinds(), "rule that turns the outcome into a reward");
  schema.Field("verifier.max_answer_bytes", &o.max_answer_bytes, "longer answers are malformed: reward 0");
  VerifierKeys keys(schema, o);
  keys.Of({"exact", "numeric", "json_field", "choice", "f_beta", "math"});
  keys.Field("expected", &o.expected, "template of the right answer");
  keys.Of({"exact"});
  keys.Field("ignore_case", &o.ignore_case, "ignore case, for A-Z only");
  keys.Of({"numeric", "json_field"});
  keys.Field("tolerance", &o.tolerance, "absolute, of numbers");
  keys.Field("relative_tolerance", &o.relative_tolerance, "relative to the expected number");
  keys.Of({"regex"});
  keys.Field("pattern", &o.pattern, "the whole answer must match it; RE2's syntax");
  keys.Of({"json_field"});
  keys.Field("field", &o.field, "dotted path; empty: the whole answer");
  keys.Of({"command"});
  keys.Field("command", &o.command, "argv, templates; gets the answer on stdin");
  keys.Choice("reward_from", &o.reward_from, {"exit_code", "json"}, "source of the reward");
  keys.Of({"command", "harbor", "code"});
  keys.Field("timeout_s", &o.timeout_s, "seconds; of code: of each test");
  keys.Of({"command"});
  keys.Field("timeout_is_zero", &o.timeout_is_zero, "running too long is reward 0, not an error");
  keys.Of({"choice"}, "choice");
  keys.Field("choices", &o.choice.choices, "the letters that a question may have");
  keys.Of({"f_beta"}, "f_beta");
  keys.Field("beta", &o.f_beta.beta, "above 1 recall counts more");
  keys.Of({"math"}, "math");
  keys.Field("python", &o.math.python,
             "the Python with the package math-verify; ${cwd} is the folder in which ingot was started");
  keys.Field("timeout_s", &o.math.timeout_s,
             "CPU seconds of one comparison (wall time: 5 times as many); past it: not equal");
  keys.Field("memory_bytes", &o.math.memory_bytes, "memory of one comparison; past it: not equal");
  keys.Field("float_rounding", &o.math.float_rounding, "decimal digits of rounded numbers");
  keys.Field("workers", &o.math.workers, "Python processes at a time");
  keys.Of({"code"}, "code");
  keys.Field("command", &o.code.command, "argv that runs the program, a template with ${file} and ${cwd}");
  keys.Field("file", &o.code.file, "name of the program's file");
  keys.Field("tests", &o.code.tests, "template of a JSON list of {input, output} or, for Python, {code}");
  keys.Choice("score", &o.code.score, {"all", "fraction"}, "every test, or the share that passes");
  keys.Field("memory_bytes", &o.code.memory_bytes, "address space of each process of a test; 0: no limit");
  keys.Field("max_tests", &o.code.max_tests, "a task with more tests is rejected");
  keys.Of({"harbor"}, "harbor");
  keys.Field("tests", &o.harbor.tests, "template of the folder with test.sh; a relative one begins in ${cwd}");
  keys.Field("no_reward_is_zero", &o.harbor.no_reward_is_zero,
             "a test.sh that ends without a reward is reward 0, not an error");
  keys.Field("timeout_is_zero", &o.harbor.timeout_is_zero, "running too long is reward 0, not an error");
}

void BindMcpServer(base::Schema& schema, agents::McpServerOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, templates; speaks MCP over stdin and stdout, or listens at url");
  schema.Field(
      "url", &o.url,
      "template of an address that speaks MCP over HTTP; with command: http://127.0.0.1:PORT/PATH in the sandbox");
  schema.Field("headers", &o.headers, "headers (templates) of requests to url");
  schema.Field("env", &o.env, "environment variables (templates) of the server");
  schema.Field("check_start", &o.check_start,
               "check it before the agent starts; no answer fails the episode as an infrastructure fault");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered");
}

void BindService(base::Schema& schema, agents::ServiceOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, templates; listens inside the sandbox");
  schema.Field("url", &o.url, "template of http://127.0.0.1:PORT/PATH; the agent starts once it is answered below 500");
  schema.Field("env", &o.env, "environment variables (templates), added to the agent's");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered");
}

void BindRecipe(base::Schema& schema, agents::RecipeOptions& o) {
  schema.Field("name", &o.name, "the scaffold, in metrics and recorded episodes");
  schema.Field("weight", &o.weight, "share of the episodes, relative to the other recipes");
  schema.Field("domains", &o.domains,
               "domains whose tasks it runs; recipes may share a domain; empty: every domain that no recipe names");
  schema.Field(
      "command", &o.command,
      "argv; templates: ${base_url} ${api_key} ${task} ${task.FIELD} ${task_id} ${episode_id} ${workdir} ${home} "
      "${cwd} ${mcp.servers} ${mcp.gemini} ${mcp.opencode} ${mcp.codex}; ${json:NAME} is each as JSON, quoted");
  schema.Field("env", &o.env, "environment variables (templates) added to HOME, OPENAI_BASE_URL, OPENAI_API_KEY, ...");
  schema.Field("inherit_env", &o.inherit_env, "variables copied from ingot's own environment");
  schema.Field("files", &o.files, "files made in ${workdir}: path to template of the content");
  schema.List<agents::McpServerOptions>("mcp", &o.mcp, BindMcpServer,
                                        "MCP servers of the agent, available in files: as ${mcp.servers}");
  schema.List<agents::ServiceOptions>("services", &o.services, BindService,
                                      "programs that run next to the agent in the sandbox and end with it");
  schema.Field("image", &o.image,
               "template of the image that is the episode's root folder, such as ${task.image} or oci-archive:FILE");
  schema.Field("work_at", &o.work_at, "second path of ${workdir}: empty, or /app for Harbor's tasks without an image");
  schema.List<agents::StepOptions>("setup", &o.setup, BindStep, "commands before the agent");
  schema.List<agents::StepOptions>("cleanup", &o.cleanup, BindStep, "commands after the agent and the verifier");
  schema.Field("timeout_s", &o.timeout_s, "seconds the agent may run");
  schema.Field("setup_timeout_s", &o.setup_timeout_s, "seconds each set-up command may run");
  schema.Field("cleanup_timeout_s", &o.cleanup_timeout_s, "seconds each clean-up command may run");
  schema.Field("max_output_bytes", &o.max_output_bytes,
               "stdout and stderr together; an agent that writes more is killed");
  schema.Field("memory_limit_bytes", &o.memory_limit_bytes, "address space of each process; 0: no limit");
  schema.Field("max_open_files", &o.max_open_files, "file descriptors of each process; 0: no limit");
  schema.Field("cpu_limit_s", &o.cpu_limit_s, "CPU seconds of each process; 0: no limit");
  schema.Field("max_file_bytes", &o.max_file_bytes, "size of any file it writes; 0: no limit");
  schema.Field("max_concurrent", &o.max_concurrent, "episodes of this recipe at a time; 0: agents.concurrency");
  schema.Choice("answer_from", &o.answer_from, {"stdout", "file"},
                "source of the answer: the last line printed, or a file");
  schema.Field("answer_file", &o.answer_file, "answer_from file: path in ${workdir}");
  for (const auto& [name, field, what] :
       {std::tuple("on_crash", &o.on_crash, "an agent that exits with another code than 0"),
        std::tuple("on_timeout", &o.on_timeout, "an agent that runs past timeout_s"),
        std::tuple("on_flood", &o.on_flood, "an agent that writes more than max_output_bytes")}) {
    schema.Choice(name, field, {"fail", "zero", "verify"},
                  absl::StrCat(what, ": a new attempt, reward 0, or the verifier's reward"));
  }
  schema.Field("resumes", &o.resumes,
               "an agent that starts on a fork of another agent's folders continues from that point, so its episodes "
               "may branch");
  schema.Renamed("verifier_room", "verifier_sandbox");
  schema.Choice(
      "verifier_sandbox", &o.verifier_sandbox, {"auto", "agent", "changed", "pristine"},
      "sandbox of a verifier that runs a program: agent: the agent's own; changed: a new one with all files that the "
      "agent left; pristine: a new one with the original image and the work folder; auto: pristine for "
      "harbor, agent for command");
  schema.Field("keep_failed", &o.keep_failed, "keep the folder of a failed episode");
  BindVerifier(schema, o.verifier);
}

}  // namespace

void BindAgents(base::Schema& schema, agents::RunnerOptions& o) {
  schema.Field("agents.concurrency", &o.concurrency, "episodes at a time");
  schema.Field("agents.work_root", &o.work_root, "folder of the episodes' private folders, on a local disk");
  schema.Field("agents.image_store", &o.image_store, "folder that images are unpacked in; empty: work_root/images");
  schema.Field("agents.image_build_hosts", &o.image_build_hosts,
               "hosts that Dockerfile steps may reach, including the registries of base images: HOST:PORT, "
               "*.DOMAIN:PORT");
  schema.Field("agents.image_folders", &o.image_folders,
               "folders with images that the data of tasks may name; a folder of Harbor tasks counts by itself");
  schema.Field("agents.backoff_initial_s", &o.backoff_initial_s,
               "wait after a rejected admission that has no retry time");
  schema.Field("agents.backoff_max_s", &o.backoff_max_s, "longest of these waits");
  schema.Field("agents.report_retry_s", &o.report_retry_s,
               "seconds for which a reward is sent again to an unreachable gateway");
  schema.Field("agents.stop_timeout_s", &o.stop_timeout_s, "seconds that stopping waits for the running agents");
  schema.Field("agents.keep_failed_max", &o.keep_failed_max, "folders of failed episodes kept");
  schema.Field("agents.branching.at", &o.branching.at, "calls of an episode before it is forked");
  schema.Field("agents.branching.width", &o.branching.width,
               "episodes that continue from each fork, a divisor of scheduler.group_size; 0: no branching");
  schema.Field("agents.max_snapshots", &o.max_snapshots, "snapshots held at a time");
  schema.List<agents::RecipeOptions>(
      "agents.recipes", &o.recipes, BindRecipe,
      "the kinds of agents; empty: the run starts no agents, and outside agents use its gateway");
}

void BindSandbox(base::Schema& schema, sandbox::SubstrateOptions& o, std::string& require) {
  schema.Choice("sandbox.require", &require, {"any", "none", "landlock", "namespaces", "full"},
                "minimum isolation level of agents; a run that would get less does not start; none: the weakest is "
                "enough, also for verifiers that run the model's programs; any: enough except for those");
  schema.Renamed("sandbox.rung", "sandbox.isolation");
  schema.Choice("sandbox.isolation", &o.isolation, {"auto", "process", "landlock", "namespaces", "full"},
                "strongest isolation level to try, which sandbox.require raises; auto: whatever the machine allows");
  schema.Choice("sandbox.network", &o.network, {"none", "host"},
                "none: with namespaces a sandbox reaches only the gateway; host: it has the machine's network");
  schema.Field("sandbox.visible", &o.visible,
               "paths that agents see, besides the system's programs, the recipes' own and the start folder");
  schema.Field("sandbox.memory_bytes", &o.totals.memory_bytes,
               "memory of an episode in total, below the isolation level full summed twice a second; 0: no limit");
  schema.Field("sandbox.processes", &o.totals.processes, "processes and threads of an episode; 0: no limit");
  schema.Field("sandbox.cpus", &o.totals.cpus,
               "isolation level full: cores' worth of CPU time of an episode; 0: no limit");
  schema.Field("sandbox.disk_bytes", &o.disk.bytes, "disk of an episode, counted about once a second; 0: no limit");
  schema.Field("sandbox.files", &o.disk.files, "files and folders of an episode; 0: no limit");
  schema.Field("sandbox.pool", &o.pool, "sandboxes opened ahead; -1: a quarter of agents.concurrency, at least 2");
  schema.Choice("sandbox.agent_uid", &o.agent_uid, {"auto", "own", "shared"},
                "own: a uid for each running episode, or no start; shared: agents have ingot's uid and capabilities; "
                "auto: own where the machine allows it and it reaches every recipe's program, else ingot's uid without "
                "capabilities");
  schema.Field("sandbox.uid_base", &o.uid_base,
               "first uid of episodes; the next 65,535 are theirs too, for all runs of the machine");
}

}  // namespace ingot::app
