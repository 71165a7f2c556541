#include "agents/options.h"

#include <unistd.h>

#include <set>
#include <tuple>

#include "agents/recipe.h"
#include "base/config.h"
#include "base/task_domain.h"
#include "sandbox/egress/egress_list.h"

namespace ingot::agents {
namespace {

// The bound for timeouts and limits.
base::Bound Seconds() { return base::LeftOpen(0, 1e6); }

absl::Status CheckRecipe(const RecipeOptions& recipe) {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(recipe));
  if (recipe.verifier.kind == "harbor" && recipe.verifier_sandbox == "agent") {
    return absl::InvalidArgumentError(
        "verifier_sandbox is agent, but harbor's tests need their own sandbox: set auto, pristine or changed");
  }
  if ((recipe.answer_from == "file") == recipe.answer_file.empty()) {
    return absl::InvalidArgumentError("answer_file and answer_from: file need each other: set both or neither");
  }
  if (!recipe.work_at.empty() && (recipe.work_at != "/app" || !recipe.image.empty())) {
    return absl::InvalidArgumentError("work_at must be empty or /app, and /app needs a recipe without an image");
  }
  std::set<std::string> domains;
  for (const std::string& domain : recipe.domains) domains.insert(base::DomainOf(domain));
  if (domains.size() != recipe.domains.size()) return absl::InvalidArgumentError("domains lists a domain twice");
  return Recipe::Make(recipe).status();
}

}  // namespace

void Bind(base::Schema& schema, StepOptions& o) { schema.Field("command", &o.command, "argv, templates"); }

void Bind(base::Schema& schema, McpServerOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, with templates; speaks MCP over stdin and stdout, or listens at url");
  schema.Field(
      "url", &o.url,
      "template for the server's URL (MCP over HTTP); with command: http://127.0.0.1:PORT/PATH in the sandbox");
  schema.Field("headers", &o.headers, "headers, with templates, for requests to url");
  schema.Field("env", &o.env, "environment variables of the server, with templates");
  schema.Field("check_start", &o.check_start,
               "check that the server responds before the agent starts; if it does not, the episode fails as an "
               "infrastructure failure");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered", Seconds());
}

void Bind(base::Schema& schema, ServiceOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, with templates, of a server that listens inside the sandbox");
  schema.Field("url", &o.url,
               "template for http://127.0.0.1:PORT/PATH; the agent starts once it responds with a status below 500");
  schema.Field("env", &o.env, "environment variables, with templates, in addition to the agent's");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered", Seconds());
}

void Bind(base::Schema& schema, RecipeOptions& o) {
  schema.Field("name", &o.name, "name of the scaffold, in metrics and recorded episodes");
  schema.Field("weight", &o.weight, "weight of this recipe when recipes are chosen for episodes", base::Positive());
  schema.Field(
      "domains", &o.domains,
      "task domains that this recipe runs; recipes may share a domain; empty: every domain that no recipe names");
  schema.Field(
      "command", &o.command,
      "argv; templates: ${base_url} ${api_key} ${task} ${task.FIELD} ${task_id} ${episode_id} ${workdir} ${home} "
      "${cwd} ${mcp.servers} ${mcp.gemini} ${mcp.opencode} ${mcp.codex}; ${json:NAME} inserts each as a JSON string; "
      "${config_dir} works in every key");
  schema.Field("env", &o.env,
               "environment variables, with templates, in addition to HOME, OPENAI_BASE_URL, OPENAI_API_KEY, ...");
  schema.Field("inherit_env", &o.inherit_env, "variables copied from ingot's own environment");
  schema.Field("files", &o.files, "files to create in ${workdir}: path to a template for the content");
  schema.List("mcp", &o.mcp, "MCP servers of the agent, available in files: as ${mcp.servers}");
  schema.List("services", &o.services, "programs that run next to the agent in the sandbox and end with it");
  schema.Field(
      "image", &o.image,
      "template for the image that becomes the episode's root folder, such as ${task.image} or oci-archive:FILE");
  schema.Field("work_at", &o.work_at, "second path of ${workdir}: empty, or /app for Harbor's tasks without an image");
  schema.List("setup", &o.setup, "commands to run before the agent");
  schema.List("cleanup", &o.cleanup, "commands to run after the agent and the verifier");
  schema.Field("timeout_s", &o.timeout_s, "timeout of the agent, in seconds", Seconds());
  schema.Field("setup_timeout_s", &o.setup_timeout_s, "timeout of each setup command, in seconds", Seconds());
  schema.Field("cleanup_timeout_s", &o.cleanup_timeout_s, "timeout of each cleanup command, in seconds", Seconds());
  schema.Field("max_output_bytes", &o.max_output_bytes,
               "maximum output on stdout and stderr together; an agent that writes more is killed", base::Positive());
  schema.Field("memory_limit_bytes", &o.memory_limit_bytes, "maximum address space of each process; 0: no limit",
               base::NotNegative());
  schema.Field("max_open_files", &o.max_open_files, "maximum open files of each process; 0: no limit",
               base::NotNegative());
  schema.Field("cpu_limit_s", &o.cpu_limit_s, "maximum CPU seconds of each process; 0: no limit", base::NotNegative());
  schema.Field("max_file_bytes", &o.max_file_bytes, "maximum size of a file that the agent writes; 0: no limit",
               base::NotNegative());
  schema.Field("max_concurrent", &o.max_concurrent,
               "maximum number of concurrent episodes of this recipe; 0: agents.concurrency", base::NotNegative());
  schema.Choice("answer_from", &o.answer_from, {"stdout", "file"},
                "source of the answer: the last line that the agent prints, or a file");
  schema.Field("answer_file", &o.answer_file, "answer_from file: path of the file in ${workdir}");
  for (const auto& [name, field, what] :
       {std::tuple("on_crash", &o.on_crash, "an agent that exits with a nonzero code"),
        std::tuple("on_timeout", &o.on_timeout, "an agent that runs past timeout_s"),
        std::tuple("on_flood", &o.on_flood, "an agent that writes more than max_output_bytes")}) {
    schema.Choice(name, field, {"fail", "zero", "verify"},
                  absl::StrCat(what, ": fail: a new attempt; zero: reward 0; verify: the verifier's reward"));
  }
  schema.Field("resumes", &o.resumes,
               "the agent continues from where a previous agent stopped if it starts in a copy of that agent's "
               "folders, so its episodes can branch");
  schema.Renamed("verifier_room", "verifier_sandbox");
  schema.Choice(
      "verifier_sandbox", &o.verifier_sandbox, {"auto", "agent", "changed", "pristine"},
      "sandbox of a verifier that runs a program: agent: the agent's own; changed: a new one with all files that the "
      "agent left; pristine: a new one with the original image and the work folder; auto: pristine for "
      "harbor, agent for command");
  schema.Field("keep_failed", &o.keep_failed, "keep the folder of a failed episode");
  schema.Section("verifier", o.verifier);
}

void Bind(base::Schema& schema, BranchingOptions& o) {
  schema.Field("at", &o.at, "number of calls that an episode makes before it is forked");
  schema.Field("width", &o.width,
               "number of episodes that continue from each fork; must divide scheduler.group_size; 0: no branching");
}

void Bind(base::Schema& schema, RunnerOptions& o) {
  schema.Field("concurrency", &o.concurrency, "maximum number of concurrent episodes", base::InRange(1, 4096));
  schema.Field("work_root", &o.work_root, "folder for the episodes' private folders, on a local disk");
  schema.Field("image_store", &o.image_store, "folder for unpacked images; empty: work_root/images");
  schema.Field("image_build_hosts", &o.image_build_hosts,
               "hosts that Dockerfile steps may connect to, including base image registries: HOST:PORT, *.DOMAIN:PORT");
  schema.Field("image_folders", &o.image_folders,
               "folders whose images tasks may use; folders of Harbor tasks are always included");
  schema.Field("backoff_initial_s", &o.backoff_initial_s,
               "seconds to wait after a rejected request for an episode that has no retry delay", Seconds());
  schema.Field("backoff_max_s", &o.backoff_max_s, "maximum of these waits, in seconds", Seconds());
  schema.Field("report_retry_s", &o.report_retry_s, "seconds to keep sending a reward to an unreachable gateway",
               base::InRange(0, 1e6));
  schema.Field("stop_timeout_s", &o.stop_timeout_s, "seconds that running agents get to finish when the role stops",
               Seconds());
  schema.Field("keep_failed_max", &o.keep_failed_max, "maximum number of failed episodes whose folders are kept",
               base::NotNegative());
  schema.Section("branching", o.branching);
  schema.Field("max_snapshots", &o.max_snapshots, "maximum number of snapshots held", base::Positive());
  schema.List("recipes", &o.recipes,
              "the agents that the run starts; empty: none, and external agents use its gateway");
}

std::string DefaultWorkRoot() { return absl::StrCat("/tmp/ingot-work-", ::geteuid()); }

absl::Status RecipeOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("a recipe has no name");
  return base::Annotate(CheckRecipe(*this), absl::StrCat("recipe '", name, "'"));
}

std::string ImageStoreOf(const RunnerOptions& options) {
  return options.image_store.empty() ? options.work_root + "/images" : options.image_store;
}

absl::Status RunnerOptions::Validate() const {
  std::set<std::string> names;
  for (const RecipeOptions& recipe : recipes) {
    INGOT_RETURN_IF_ERROR(base::Annotate(recipe.Validate(), "recipes"));
    if (!names.insert(recipe.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("recipes has two recipes named '", recipe.name, "'"));
    }
  }
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  if (work_root.empty()) return absl::InvalidArgumentError("work_root is empty: set it to a folder");
  INGOT_RETURN_IF_ERROR(base::Annotate(sandbox::EgressList::Parse(image_build_hosts).status(), "image_build_hosts"));
  if (backoff_max_s < backoff_initial_s) {
    return absl::InvalidArgumentError("backoff_max_s must not be below backoff_initial_s");
  }
  if (branching.width > 0 && !recipes.empty() && (recipes.size() > 1 || !recipes[0].resumes)) {
    return absl::InvalidArgumentError(
        "branching needs exactly one recipe, whose agent resumes where another stopped: set its `resumes`");
  }
  return absl::OkStatus();
}

}  // namespace ingot::agents
