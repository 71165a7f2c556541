#include "agents/options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "agents/recipe.h"
#include "base/task_domain.h"
#include "sandbox/egress/egress_list.h"

namespace ingot::agents {
namespace {

absl::Status Positive(const char* name, double seconds) {
  if (seconds > 0 && seconds <= 1e6) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", seconds, ": seconds above 0 (and at most 1e6)"));
}

absl::Status NotNegative(const char* name, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ": 0 (no limit) or more"));
}

absl::Status OneOfFates(const char* name, const std::string& fate) {
  if (fate == "fail" || fate == "zero" || fate == "verify") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is '", fate, "': fail, zero or verify"));
}

absl::Status CheckRecipe(const RecipeOptions& recipe) {
  if (!(recipe.weight > 0) || !std::isfinite(recipe.weight))
    return absl::InvalidArgumentError("weight must be above 0");
  INGOT_RETURN_IF_ERROR(Positive("timeout_s", recipe.timeout_s));
  INGOT_RETURN_IF_ERROR(Positive("setup_timeout_s", recipe.setup_timeout_s));
  INGOT_RETURN_IF_ERROR(Positive("cleanup_timeout_s", recipe.cleanup_timeout_s));
  if (recipe.max_output_bytes <= 0) return absl::InvalidArgumentError("max_output_bytes must be above 0");
  INGOT_RETURN_IF_ERROR(NotNegative("memory_limit_bytes", recipe.memory_limit_bytes));
  INGOT_RETURN_IF_ERROR(NotNegative("max_open_files", recipe.max_open_files));
  INGOT_RETURN_IF_ERROR(NotNegative("cpu_limit_s", recipe.cpu_limit_s));
  INGOT_RETURN_IF_ERROR(NotNegative("max_file_bytes", recipe.max_file_bytes));
  INGOT_RETURN_IF_ERROR(NotNegative("max_concurrent", recipe.max_concurrent));
  INGOT_RETURN_IF_ERROR(OneOfFates("on_crash", recipe.on_crash));
  INGOT_RETURN_IF_ERROR(OneOfFates("on_timeout", recipe.on_timeout));
  INGOT_RETURN_IF_ERROR(OneOfFates("on_flood", recipe.on_flood));
  if (recipe.verifier.kind == "harbor" && recipe.verifier_sandbox == "agent") {
    return absl::InvalidArgumentError(
        "verifier_sandbox is agent, but harbor's tests need their own sandbox: set auto, pristine or changed");
  }
  if (recipe.answer_from != "stdout" && recipe.answer_from != "file") {
    return absl::InvalidArgumentError(absl::StrCat("answer_from is '", recipe.answer_from, "': stdout or file"));
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

std::string DefaultWorkRoot() { return absl::StrCat("/tmp/ingot-work-", ::geteuid()); }

absl::Status RecipeOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("a recipe has no name");
  return base::Annotate(CheckRecipe(*this), absl::StrCat("recipe '", name, "'"));
}

std::string ImageStoreOf(const RunnerOptions& options) {
  return options.image_store.empty() ? options.work_root + "/images" : options.image_store;
}

absl::Status RunnerOptions::Validate() const {
  if (concurrency < 1 || concurrency > 4096) {
    return absl::InvalidArgumentError(absl::StrCat("agents.concurrency is ", concurrency, ": 1 to 4096"));
  }
  std::set<std::string> names;
  for (const RecipeOptions& recipe : recipes) {
    INGOT_RETURN_IF_ERROR(base::Annotate(recipe.Validate(), "agents.recipes"));
    if (!names.insert(recipe.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("agents.recipes has two recipes named '", recipe.name, "'"));
    }
  }
  if (work_root.empty()) return absl::InvalidArgumentError("agents.work_root is empty: it needs a folder");
  INGOT_RETURN_IF_ERROR(
      base::Annotate(sandbox::EgressList::Parse(image_build_hosts).status(), "agents.image_build_hosts"));
  INGOT_RETURN_IF_ERROR(Positive("agents.backoff_initial_s", backoff_initial_s));
  INGOT_RETURN_IF_ERROR(Positive("agents.backoff_max_s", backoff_max_s));
  if (backoff_max_s < backoff_initial_s) {
    return absl::InvalidArgumentError("agents.backoff_max_s must not be below agents.backoff_initial_s");
  }
  if (!(report_retry_s >= 0 && report_retry_s <= 1e6)) {
    return absl::InvalidArgumentError("agents.report_retry_s must be 0 or more");
  }
  INGOT_RETURN_IF_ERROR(Positive("agents.stop_timeout_s", stop_timeout_s));
  if (max_snapshots < 1) return absl::InvalidArgumentError("agents.max_snapshots must be at least 1");
  if (branching.width > 0 && !recipes.empty() && (recipes.size() > 1 || !recipes[0].resumes)) {
    return absl::InvalidArgumentError(
        "agents.branching needs exactly one recipe, whose agent resumes where another stopped: set its `resumes`");
  }
  return NotNegative("agents.keep_failed_max", keep_failed_max);
}

}  // namespace ingot::agents
