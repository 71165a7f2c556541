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
    return absl::InvalidArgumentError("answer_file must be set with answer_from: file, and only then");
  }
  if (!recipe.work_at.empty() && (recipe.work_at != "/app" || !recipe.image.empty())) {
    return absl::InvalidArgumentError("work_at must be empty or /app, and needs a recipe without an image");
  }
  std::set<std::string> domains;
  for (const std::string& domain : recipe.domains) domains.insert(base::DomainOf(domain));
  if (domains.size() != recipe.domains.size()) return absl::InvalidArgumentError("domains names a domain twice");
  return Recipe::Make(recipe).status();
}

}  // namespace

void Bind(base::Schema& schema, StepOptions& o) { schema.Field("command", &o.command, "argv, templates"); }

void Bind(base::Schema& schema, McpServerOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, templates; speaks MCP over stdin and stdout, or listens at url");
  schema.Field(
      "url", &o.url,
      "template of an address that speaks MCP over HTTP; with command: http://127.0.0.1:PORT/PATH in the sandbox");
  schema.Field("headers", &o.headers, "headers (templates) of requests to url");
  schema.Field("env", &o.env, "environment variables (templates) of the server");
  schema.Field("check_start", &o.check_start,
               "check it before the agent starts; no answer fails the episode as an infrastructure fault");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered", Seconds());
}

void Bind(base::Schema& schema, ServiceOptions& o) {
  schema.Field("name", &o.name, "letters, digits, - and _");
  schema.Field("command", &o.command, "argv, templates; listens inside the sandbox");
  schema.Field("url", &o.url, "template of http://127.0.0.1:PORT/PATH; the agent starts once it is answered below 500");
  schema.Field("env", &o.env, "environment variables (templates), added to the agent's");
  schema.Field("start_timeout_s", &o.start_timeout_s, "seconds until it must have answered", Seconds());
}

void Bind(base::Schema& schema, RecipeOptions& o) {
  schema.Field("name", &o.name, "the scaffold, in metrics and recorded episodes");
  schema.Field("weight", &o.weight, "share of the episodes, relative to the other recipes", base::Positive());
  schema.Field("domains", &o.domains,
               "domains whose tasks it runs; recipes may share a domain; empty: every domain that no recipe names");
  schema.Field(
      "command", &o.command,
      "argv; templates: ${base_url} ${api_key} ${task} ${task.FIELD} ${task_id} ${episode_id} ${workdir} ${home} "
      "${cwd} ${mcp.servers} ${mcp.gemini} ${mcp.opencode} ${mcp.codex}; ${json:NAME} is each as JSON, quoted");
  schema.Field("env", &o.env, "environment variables (templates) added to HOME, OPENAI_BASE_URL, OPENAI_API_KEY, ...");
  schema.Field("inherit_env", &o.inherit_env, "variables copied from ingot's own environment");
  schema.Field("files", &o.files, "files made in ${workdir}: path to template of the content");
  schema.List("mcp", &o.mcp, "MCP servers of the agent, available in files: as ${mcp.servers}");
  schema.List("services", &o.services, "programs that run next to the agent in the sandbox and end with it");
  schema.Field("image", &o.image,
               "template of the image that is the episode's root folder, such as ${task.image} or oci-archive:FILE");
  schema.Field("work_at", &o.work_at, "second path of ${workdir}: empty, or /app for Harbor's tasks without an image");
  schema.List("setup", &o.setup, "commands before the agent");
  schema.List("cleanup", &o.cleanup, "commands after the agent and the verifier");
  schema.Field("timeout_s", &o.timeout_s, "seconds the agent may run", Seconds());
  schema.Field("setup_timeout_s", &o.setup_timeout_s, "seconds each set-up command may run", Seconds());
  schema.Field("cleanup_timeout_s", &o.cleanup_timeout_s, "seconds each clean-up command may run", Seconds());
  schema.Field("max_output_bytes", &o.max_output_bytes,
               "stdout and stderr together; an agent that writes more is killed", base::Positive());
  schema.Field("memory_limit_bytes", &o.memory_limit_bytes, "address space of each process; 0: no limit",
               base::NotNegative());
  schema.Field("max_open_files", &o.max_open_files, "file descriptors of each process; 0: no limit",
               base::NotNegative());
  schema.Field("cpu_limit_s", &o.cpu_limit_s, "CPU seconds of each process; 0: no limit", base::NotNegative());
  schema.Field("max_file_bytes", &o.max_file_bytes, "size of any file it writes; 0: no limit", base::NotNegative());
  schema.Field("max_concurrent", &o.max_concurrent, "episodes of this recipe at a time; 0: agents.concurrency",
               base::NotNegative());
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
  schema.Section("verifier", o.verifier);
}

void Bind(base::Schema& schema, BranchingOptions& o) {
  schema.Field("at", &o.at, "calls of an episode before it is forked");
  schema.Field("width", &o.width,
               "episodes that continue from each fork, a divisor of scheduler.group_size; 0: no branching");
}

void Bind(base::Schema& schema, RunnerOptions& o) {
  schema.Field("concurrency", &o.concurrency, "episodes at a time", base::InRange(1, 4096));
  schema.Field("work_root", &o.work_root, "folder of the episodes' private folders, on a local disk");
  schema.Field("image_store", &o.image_store, "folder that images are unpacked in; empty: work_root/images");
  schema.Field("image_build_hosts", &o.image_build_hosts,
               "hosts that Dockerfile steps may reach, including the registries of base images: HOST:PORT, "
               "*.DOMAIN:PORT");
  schema.Field("image_folders", &o.image_folders,
               "folders with images that the data of tasks may name; a folder of Harbor tasks counts by itself");
  schema.Field("backoff_initial_s", &o.backoff_initial_s, "wait after a rejected admission that has no retry time",
               Seconds());
  schema.Field("backoff_max_s", &o.backoff_max_s, "longest of these waits", Seconds());
  schema.Field("report_retry_s", &o.report_retry_s,
               "seconds for which a reward is sent again to an unreachable gateway", base::InRange(0, 1e6));
  schema.Field("stop_timeout_s", &o.stop_timeout_s, "seconds that stopping waits for the running agents", Seconds());
  schema.Field("keep_failed_max", &o.keep_failed_max, "folders of failed episodes kept", base::NotNegative());
  schema.Section("branching", o.branching);
  schema.Field("max_snapshots", &o.max_snapshots, "snapshots held at a time", base::Positive());
  schema.List("recipes", &o.recipes,
              "the kinds of agents; empty: the run starts no agents, and outside agents use its gateway");
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
  if (work_root.empty()) return absl::InvalidArgumentError("work_root is empty: it needs a folder");
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
