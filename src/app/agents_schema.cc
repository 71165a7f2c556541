#include "app/role_schemas.h"

#include <tuple>

namespace ingot::app {
namespace {

void BindStep(base::Schema& schema, agents::StepOptions& o) { schema.Field("command", &o.command, "argv, templates"); }

void BindVerifier(base::Schema& schema, reward::VerifierOptions& o) {
  schema.Choice("verifier.kind", &o.kind, reward::VerifierKinds(), "rule that turns the outcome into a reward");
  schema.Field("verifier.expected", &o.expected,
               "exact, numeric, json_field, choice, f_beta, math: template of the right answer");
  schema.Field("verifier.ignore_case", &o.ignore_case, "exact: A-Z and a-z are the same");
  schema.Field("verifier.tolerance", &o.tolerance, "numeric: absolute");
  schema.Field("verifier.relative_tolerance", &o.relative_tolerance, "numeric: relative to the expected value");
  schema.Field("verifier.pattern", &o.pattern, "regex: the whole answer must match it; RE2's syntax");
  schema.Field("verifier.field", &o.field, "json_field: dotted path; empty: the whole answer");
  schema.Field("verifier.command", &o.command, "command: argv, templates; gets the answer on stdin");
  schema.Choice("verifier.reward_from", &o.reward_from, {"exit_code", "json"}, "command: source of the reward");
  schema.Field("verifier.timeout_s", &o.timeout_s, "command, harbor: seconds; code: of each test");
  schema.Field("verifier.timeout_is_zero", &o.timeout_is_zero,
               "command, harbor: running too long is reward 0, not an error");
  schema.Field("verifier.max_answer_bytes", &o.max_answer_bytes, "longer answers are malformed: reward 0");
  schema.Field("verifier.choice.choices", &o.choice.choices, "choice: the letters that a question may have");
  schema.Field("verifier.f_beta.beta", &o.f_beta.beta, "f_beta: above 1 recall counts more");
  schema.Field("verifier.math.python", &o.math.python,
               "math: the Python with the package math-verify; ${cwd} is the folder in which ingot was started");
  schema.Field("verifier.math.timeout_s", &o.math.timeout_s,
               "math: CPU seconds of one comparison, of wall time 5 times as many; past it: not equal");
  schema.Field("verifier.math.memory_bytes", &o.math.memory_bytes,
               "math: memory of one comparison; past it: not equal");
  schema.Field("verifier.math.float_rounding", &o.math.float_rounding, "math: decimal digits of rounded numbers");
  schema.Field("verifier.math.workers", &o.math.workers, "math: Python processes at a time");
  schema.Field("verifier.code.command", &o.code.command,
               "code: argv that runs the program, a template with ${file} and ${cwd}");
  schema.Field("verifier.code.file", &o.code.file, "code: name of the program's file");
  schema.Field("verifier.code.tests", &o.code.tests,
               "code: template of a JSON list of {input, output} or, for Python, {code}");
  schema.Choice("verifier.code.score", &o.code.score, {"all", "fraction"},
                "code: every test, or the share that passes");
  schema.Field("verifier.code.memory_bytes", &o.code.memory_bytes,
               "code: address space of each process of a test; 0: no limit");
  schema.Field("verifier.code.max_tests", &o.code.max_tests, "code: a task with more tests is refused");
  schema.Field("verifier.harbor.tests", &o.harbor.tests,
               "harbor: template of the folder with test.sh; a relative one begins in ${cwd}");
}

void BindMcpServer(base::Schema& schema, agents::McpServerOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, templates; speaks MCP over stdin and stdout, or listens at url");
  schema.Field(
      "url", &o.url,
      "template of an address that speaks MCP over HTTP; with command: http://127.0.0.1:PORT/PATH in the room");
  schema.Field("headers", &o.headers, "headers (templates) of requests to url");
  schema.Field("env", &o.env, "environment variables (templates) of the server");
  schema.Field("check_start", &o.check_start,
               "ask it before the agent; a server that does not answer fails the episode as infrastructure");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered");
}

void BindRecipe(base::Schema& schema, agents::RecipeOptions& o) {
  schema.Field("name", &o.name, "the scaffold, in metrics and recorded episodes");
  schema.Field("weight", &o.weight, "share of the episodes, relative to the other recipes");
  schema.Field("domains", &o.domains,
               "domains whose tasks it runs, beside other recipes that name them; empty: every domain that none names");
  schema.Field(
      "command", &o.command,
      "argv; templates: ${base_url} ${api_key} ${task} ${task.FIELD} ${task_id} ${episode_id} ${workdir} ${home} "
      "${cwd} ${mcp.servers} ${mcp.gemini} ${mcp.opencode} ${mcp.codex}; ${json:NAME} is each as JSON, quoted");
  schema.Field("env", &o.env, "environment variables (templates) added to HOME, OPENAI_BASE_URL, OPENAI_API_KEY, ...");
  schema.Field("inherit_env", &o.inherit_env, "variables taken over from ingot's own environment");
  schema.Field("files", &o.files, "files made in ${workdir}: path to template of the content");
  schema.List<agents::McpServerOptions>("mcp", &o.mcp, BindMcpServer,
                                        "MCP servers of the agent, which files: hands to it as ${mcp.servers}");
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
               "an agent that is started on a fork of another one's folders goes on where that one was, so that its "
               "episodes may branch");
  schema.Choice(
      "verifier_room", &o.verifier_room, {"auto", "agent", "changed", "pristine"},
      "room of a verifier that runs a program: agent: the agent's own; changed: a new one with all files that the "
      "agent left; pristine: a new one whose image is as it was but for the work folder; auto: pristine for "
      "harbor, agent for command");
  schema.Field("keep_failed", &o.keep_failed, "keep the folder of a failed episode");
  BindVerifier(schema, o.verifier);
}

}  // namespace

void BindAgents(base::Schema& schema, agents::RunnerOptions& o) {
  schema.Field("agents.concurrency", &o.concurrency, "episodes at a time");
  schema.Field("agents.work_root", &o.work_root, "folder of the episodes' private folders, on a local disk");
  schema.Field("agents.image_store", &o.image_store, "folder that images are unpacked in; empty: work_root/images");
  schema.Field("agents.backoff_initial_s", &o.backoff_initial_s, "wait after a refused admission that names no time");
  schema.Field("agents.backoff_max_s", &o.backoff_max_s, "longest of these waits");
  schema.Field("agents.report_retry_s", &o.report_retry_s,
               "seconds for which a reward is sent again to an unreachable gateway");
  schema.Field("agents.stop_timeout_s", &o.stop_timeout_s, "seconds that stopping waits for the running agents");
  schema.Field("agents.keep_failed_max", &o.keep_failed_max, "folders of failed episodes kept");
  schema.Field("agents.branching.at", &o.branching.at, "calls of an episode before it is forked");
  schema.Field("agents.branching.width", &o.branching.width,
               "episodes that go on from each fork, a divisor of scheduler.group_size; 0: episodes do not branch");
  schema.Field("agents.max_snapshots", &o.max_snapshots, "snapshots held at a time");
  schema.List<agents::RecipeOptions>(
      "agents.recipes", &o.recipes, BindRecipe,
      "the kinds of agents; empty: the run starts none, and agents from elsewhere use its gateway");
}

void BindSandbox(base::Schema& schema, sandbox::SubstrateOptions& o, std::string& require) {
  schema.Choice("sandbox.require", &require, {"any", "none", "landlock", "namespaces", "full"},
                "least rung of the wall around agents; a run that would get less is refused at its start; none: the "
                "weakest is enough, also for verifiers that run the model's programs; any: not for those");
  schema.Choice("sandbox.rung", &o.rung, {"auto", "process", "landlock", "namespaces", "full"},
                "strongest rung to try, which sandbox.require raises; auto: whatever the machine grants");
  schema.Choice("sandbox.network", &o.network, {"none", "host"},
                "none: with namespaces a room reaches the gateway alone; host: it has the machine's network");
  schema.Field("sandbox.visible", &o.visible,
               "paths that agents see beside the system's programs, the recipes' own and the folder of the start");
  schema.Field("sandbox.memory_bytes", &o.totals.memory_bytes, "rung full: memory of an episode in total; 0: no limit");
  schema.Field("sandbox.processes", &o.totals.processes, "processes and threads of an episode; 0: no limit");
  schema.Field("sandbox.cpus", &o.totals.cpus, "rung full: cores' worth of CPU time of an episode; 0: no limit");
  schema.Field("sandbox.disk_bytes", &o.disk.bytes, "disk of an episode, counted about once a second; 0: no limit");
  schema.Field("sandbox.files", &o.disk.files, "files and folders of an episode; 0: no limit");
  schema.Field("sandbox.pool", &o.pool, "rooms opened ahead; -1: a quarter of agents.concurrency, at least 2");
  schema.Choice("sandbox.agent_uid", &o.agent_uid, {"auto", "own", "shared"},
                "own: a uid for each running episode, or no start; shared: agents have ingot's uid and capabilities; "
                "auto: own where the machine grants it and it reaches every recipe's program, else ingot's uid without "
                "capabilities");
  schema.Field("sandbox.uid_base", &o.uid_base,
               "first uid of episodes; the next 65,535 are theirs too, for all runs of the machine");
}

}  // namespace ingot::app
