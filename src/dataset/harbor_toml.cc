#include "dataset/harbor_toml.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest_key.h"
#include "base/printable.h"
#include "dataset/toml_depth.h"

namespace ingot::dataset {
namespace {

// Thrown when an assertion of toml++ fails.
struct BrokenToml {};
[[noreturn]] void ThrowBrokenToml() { throw BrokenToml(); }

}  // namespace
}  // namespace ingot::dataset

// toml++ 3.3 treats some malformed text, such as "[" before the end of a line, as an internal bug. With assertions,
// such text aborts the process. Without assertions, the parser continues with undefined behavior.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_EXCEPTIONS 1
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : ::ingot::dataset::ThrowBrokenToml())
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace ingot::dataset {
namespace {

constexpr size_t kMaxUnknown = 50;         // keys that are noted individually
constexpr int kDeepestKey = 16;            // maximum dots in a key
constexpr double kMax = 1e9;               // reward/harbor_task.h rejects larger values
constexpr size_t kShownBytes = 60;         // maximum bytes of a value in an error message
constexpr double kLongestBuildSec = 1800;  // the limit in sandbox/image/image.cc

// Every key of Harbor's schema 1.x. The keys of [metadata] are arbitrary. A rejected section is listed only by its
// name.
constexpr char kKeys[] =
    "version schema_version source multi_step_reward_strategy artifacts steps metadata "
    "task task.name task.version task.description task.authors task.keywords "
    "agent agent.timeout_sec agent.user agent.network_mode agent.allowed_hosts agent.allow_internet "
    "verifier verifier.timeout_sec verifier.env verifier.user verifier.environment_mode verifier.environment "
    "verifier.collect verifier.network_mode verifier.allowed_hosts verifier.allow_internet "
    "environment environment.build_timeout_sec environment.docker_image environment.os environment.cpus "
    "environment.memory_mb environment.memory environment.storage_mb environment.storage environment.gpus "
    "environment.gpu_types environment.tpus environment.tpu environment.mcp_servers environment.env "
    "environment.skills_dir environment.workdir environment.network_mode environment.allowed_hosts "
    "environment.allow_internet environment.healthcheck environment.healthcheck.command "
    "environment.healthcheck.interval_sec environment.healthcheck.timeout_sec "
    "environment.healthcheck.start_period_sec environment.healthcheck.start_interval_sec "
    "environment.healthcheck.retries solution solution.env";

const std::vector<std::string>& Keys() {
  static const auto* const keys = new std::vector<std::string>(absl::StrSplit(kKeys, ' '));
  return *keys;
}

// Notes the keys that are not in Harbor's schema. `section`: "" = the root.
void NoteUnknown(const std::string& section, const toml::table& table, std::vector<std::string>& notes) {
  for (const auto& [name, node] : table) {
    const std::string key = absl::StrCat(section, section.empty() ? "" : ".", std::string(name.str()));
    const bool is_known = std::ranges::count(Keys(), key) > 0;
    // In a known section, all keys must be known unless its keys are arbitrary.
    const auto is_inside = [&](const std::string& each) { return each.starts_with(key + "."); };
    const bool has_keys = std::ranges::any_of(Keys(), is_inside);
    if (is_known && has_keys && node.is_table()) NoteUnknown(key, *node.as_table(), notes);
    if (is_known) continue;
    if (notes.size() >= kMaxUnknown) return;
    const std::string nearest = base::NearestKey(key, Keys());
    notes.push_back(absl::StrCat(key, ": not read, because Harbor has no such ", node.is_table() ? "section" : "key",
                                 nearest.empty() ? "" : absl::StrCat("; the nearest is '", nearest, "'")));
  }
}

// Returns text like "\"4\", a string", "inf, a number" or "a list".
std::string Shown(const toml::node& node) {
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  if (const auto* const text = node.as_string()) {
    const std::string shown = base::Printable(text->get(), {.max_bytes = kShownBytes, .ascii = false, .quoted = true});
    return absl::StrCat("\"", shown, "\", a string");
  }
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return absl::StrCat(text.str(), node.is_number() ? ", a number" : node.is_boolean() ? ", a boolean" : ", a time");
}

// Reads the keys in one table, each as its required type. The first fault in any table is stored in `fault`.
class Section {
 public:
  // `table`: null = the task has no such section. `name`: empty = the root.
  Section(std::string name, const toml::table* table, absl::Status& fault)
      : name_(std::move(name)), table_(table), fault_(fault) {}

  bool exists() const { return table_ != nullptr; }
  const std::string& name() const { return name_; }
  std::string KeyOf(const std::string& key) const { return absl::StrCat(name_, name_.empty() ? "" : ".", key); }
  const toml::node* Get(const std::string& key) const { return table_ == nullptr ? nullptr : table_->get(key); }

  Section Sub(const std::string& key) const {
    const toml::node* const node = Get(key);
    if (node != nullptr && !node->is_table()) Fault(key, *node, "a table");
    return Section(KeyOf(key), node == nullptr ? nullptr : node->as_table(), fault_);
  }
  // Returns "" if there is none.
  std::string Text(const std::string& key) const {
    const toml::node* const node = Get(key);
    if (node != nullptr && !node->is_string()) Fault(key, *node, "a string in quotation marks");
    return node == nullptr ? "" : node->value_or(std::string());
  }
  std::string OneOf(const std::string& key, std::initializer_list<const char*> names) const {
    const std::string text = Text(key);
    const toml::node* const node = Get(key);
    if (node != nullptr && std::find(names.begin(), names.end(), text) == names.end()) {
      Fault(key, *node, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
    }
    return text;
  }
  std::optional<double> Seconds(const std::string& key) const { return Number(key, true, "a number of seconds"); }
  std::optional<double> Pause(const std::string& key) const { return Number(key, false, "a number of seconds"); }
  std::optional<double> Amount(const std::string& key) const { return Number(key, false, "a number"); }
  int64_t Count(const std::string& key) const {
    const auto number = Amount(key);
    if (!number.has_value()) return 0;
    if (std::floor(*number) != *number) Fault(key, *Get(key), "a whole number");
    return static_cast<int64_t>(*number);
  }
  bool Flag(const std::string& key) const {
    const toml::node* const node = Get(key);
    if (node != nullptr && !node->is_boolean()) Fault(key, *node, "true or false");
    return node != nullptr && node->value_or(false);
  }
  // Returns whether the list has elements.
  bool Lists(const std::string& key) const {
    const toml::node* const node = Get(key);
    if (node != nullptr && !node->is_array()) Fault(key, *node, "a list");
    return node != nullptr && node->is_array() && !node->as_array()->empty();
  }
  template <typename Visit>  // visit(name, node)
  void Each(Visit visit) const {
    if (table_ == nullptr) return;
    for (const auto& [name, node] : *table_) visit(std::string(name.str()), node);
  }

  // Reports a fault like "task.toml, line 7: environment.cpus is "4", a string: write a number from 0 to 1e9".
  void Fault(const std::string& key, const toml::node& node, const std::string& wanted) const {
    Reject(absl::StrCat("task.toml, line ", node.source().begin.line, ": ", KeyOf(key), " is ", Shown(node), ": write ",
                        wanted));
  }
  void Reject(const std::string& why) const {
    if (fault_.ok()) fault_ = absl::InvalidArgumentError(why);
  }

 private:
  std::optional<double> Number(const std::string& key, bool is_above, const std::string& wanted) const {
    const toml::node* const node = Get(key);
    if (node == nullptr) return std::nullopt;
    double number = node->is_number() ? node->value_or(-1.0) : -1;
    // Harbor accepts "4" as 4.
    if (node->is_string() && !absl::SimpleAtod(node->value_or(std::string()), &number)) number = -1;
    if ((is_above ? number > 0 : number >= 0) && number <= kMax) return number;
    Fault(key, *node, absl::StrCat(wanted, is_above ? " above 0 and at most 1e9" : " from 0 to 1e9"));
    return std::nullopt;
  }

  const std::string name_;
  const toml::table* const table_;
  absl::Status& fault_;
};

struct Sections {
  Sections(const toml::table& task, absl::Status& fault)
      : root("", &task, fault),
        environment(root.Sub("environment")),
        agent(root.Sub("agent")),
        verifier(root.Sub("verifier")),
        solution(root.Sub("solution")) {}
  const Section root, environment, agent, verifier, solution;
};

void CheckVersion(const Section& root) {
  for (const char* const key : {"version", "schema_version"}) {
    const std::string version = root.Text(key);
    const toml::node* const node = root.Get(key);
    if (node == nullptr || version == "1" || version.starts_with("1.")) continue;
    root.Fault(key, *node, "a version of schema 1.x, such as \"1.0\"");
  }
}

// Replaces each "${NAME:-default}" with the default, because sandboxes do not have the machine's environment. A
// variable without a default is an error.
absl::StatusOr<std::string> Resolved(std::string text, const std::string& key) {
  for (size_t at; (at = text.find("${")) != std::string::npos;) {
    const size_t end = text.find('}', at);
    const size_t fallback = text.find(":-", at);
    if (end == std::string::npos || fallback == std::string::npos || fallback > end) {
      return absl::InvalidArgumentError(absl::StrCat("it needs an environment variable from this machine (", key, ")"));
    }
    // A default must not contain variables.
    const std::string before = text.substr(0, at), inside = text.substr(fallback + 2, end - fallback - 2);
    if (inside.find("${") != std::string::npos)
      return absl::InvalidArgumentError(absl::StrCat(key, " has a variable inside another variable"));
    text = before + inside + text.substr(end + 1);
  }
  return text;
}

void AddVariables(const Section& section, const char* field, base::json::object& payload) {
  const Section env = section.Sub("env");
  base::json::object variables;
  env.Each([&](const std::string& name, const toml::node&) {
    const auto text = Resolved(env.Text(name), env.KeyOf(name));
    if (!text.ok()) env.Reject(std::string(text.status().message()));
    if (text.ok()) variables[name] = *text;
  });
  if (!variables.empty()) payload[field] = std::move(variables);
}

// Parses "2G", "512M" or "4096K", as in older tasks. Returns a negative number for other text.
double LegacyMegabytes(std::string text) {
  const char unit = text.empty() ? ' ' : absl::ascii_toupper(static_cast<unsigned char>(text.back()));
  double number = 0;
  if (!text.empty()) text.pop_back();
  if (!absl::SimpleAtod(text, &number)) return -1;
  return unit == 'G' ? number * 1024 : unit == 'M' ? number : unit == 'K' ? number / 1024 : -1;
}

void AddHealthCheck(const Section& check, base::json::object& payload) {
  if (!check.exists()) return;
  base::json::object health{{"command", check.Text("command")}};
  if (check.Text("command").empty())
    check.Reject(absl::StrCat(check.name(), " has no command: write one, or remove the section"));
  for (const char* const name : {"interval", "start_period", "start_interval"}) {
    if (const auto seconds = check.Pause(absl::StrCat(name, "_sec"))) health[absl::StrCat(name, "_s")] = *seconds;
  }
  if (const auto seconds = check.Seconds("timeout_sec")) health["timeout_s"] = *seconds;
  if (check.Get("retries") != nullptr) health["retries"] = check.Count("retries");
  payload["healthcheck"] = std::move(health);
}

void AddLimits(const Sections& task, base::json::object& payload) {
  const auto add = [&](const std::string& name, std::optional<double> number) {
    if (number.has_value()) payload[name] = *number;
  };
  add("agent_timeout_s", task.agent.Seconds("timeout_sec"));
  add("verifier_timeout_s", task.verifier.Seconds("timeout_sec"));
  add("cpus", task.environment.Amount("cpus"));
  for (const std::string kind : {"memory", "storage"}) {
    const std::string name = kind + "_mb";
    add(name, task.environment.Amount(name));
    const toml::node* const legacy = task.environment.Get(kind);
    if (legacy == nullptr) continue;
    const double megabytes = LegacyMegabytes(legacy->value_or(std::string()));
    if (!(megabytes >= 0 && megabytes <= kMax))
      task.environment.Fault(kind, *legacy, absl::StrCat("\"2G\" or \"512M\", or better ", name, " with a number"));
    payload.emplace(name, megabytes);
  }
  AddHealthCheck(task.environment.Sub("healthcheck"), payload);
}

// Rejects a network policy that sandboxes do not support. A task without a policy runs without a network.
void CheckNetwork(const Section& section) {
  const std::string mode = section.OneOf("network_mode", {"no-network", "public", "allowlist"});
  const bool allows = section.Flag("allow_internet");
  section.Lists("allowed_hosts");
  const char* const key = mode == "public" || mode == "allowlist" ? "network_mode"
                          : mode.empty() && allows                ? "allow_internet"
                                                                  : nullptr;
  if (key != nullptr)
    section.Reject(absl::StrCat("it requires network access besides the gateway (", section.KeyOf(key), ")"));
}

void CheckEnvironment(const Section& environment) {
  for (const char* const key : {"gpus", "tpus"}) {
    if (environment.Count(key) > 0) environment.Reject(absl::StrCat("it requires environment.", key));
  }
  environment.Lists("gpu_types");
  if (environment.Sub("tpu").exists()) environment.Reject("it requires environment.tpu");
  const std::string os = absl::AsciiStrToLower(environment.Text("os"));
  if (os == "windows") environment.Reject("it requires Windows");
  if (environment.Get("os") != nullptr && os != "linux") environment.Fault("os", *environment.Get("os"), "\"linux\"");
  if (environment.Lists("mcp_servers")) environment.Reject("it requires MCP servers (environment.mcp_servers)");
}

void CheckVerifier(const Section& verifier) {
  const bool has_own = verifier.Sub("environment").exists();
  const std::string mode = verifier.OneOf("environment_mode", {"shared", "separate"});
  if (mode == "separate" || (mode.empty() && has_own))
    verifier.Reject("its tests need a separate environment (verifier.environment)");
  if (verifier.Lists("collect")) verifier.Reject("it runs commands between the agent and the tests (verifier.collect)");
}

void NoteUser(const Section& section, std::vector<std::string>& notes) {
  const toml::node* const user = section.Get("user");
  if (user == nullptr) return;
  if (!user->is_string() && !user->is_integer()) return section.Fault("user", *user, "a name or a uid");
  const std::string name = user->value_or(std::string());
  if (name == "root" || name == "0" || user->value_or(int64_t{-1}) == 0) return;
  notes.push_back(
      absl::StrCat(section.name(), ".user: commands run as the sandbox's only user, which they see as root"));
}

// Notes a task's unsupported fields, with their substitutes, if the task can still run.
void AddNotes(const Sections& task, std::vector<std::string>& notes) {
  NoteUser(task.agent, notes);
  NoteUser(task.verifier, notes);
  if (task.environment.Seconds("build_timeout_sec").value_or(0) > kLongestBuildSec)
    notes.push_back("environment.build_timeout_sec: a build may take up to half an hour");
  if (!task.environment.Text("skills_dir").empty())
    notes.push_back("environment.skills_dir: agents get their configuration only from the recipe");
  if (task.root.Lists("artifacts")) notes.push_back("artifacts: a sandbox's files are not kept");
}

void ReadFields(const Sections& task, HarborToml& read) {
  CheckVersion(task.root);
  AddLimits(task, read.payload);
  for (const auto& [section, field] :
       {std::pair(&task.environment, "env"), {&task.verifier, "verifier_env"}, {&task.solution, "solution_env"}}) {
    AddVariables(*section, field, read.payload);
  }
  const std::string workdir = task.environment.Text("workdir");
  if (!workdir.empty()) read.payload["workdir"] = workdir;
  if (!workdir.empty() && !workdir.starts_with('/')) task.root.Reject("environment.workdir is not an absolute path");
  read.docker_image = task.environment.Text("docker_image");
  AddNotes(task, read.notes);
  const Section metadata = task.root.Sub("metadata");
  if (const toml::node* const category = metadata.Get("category"); category != nullptr) {
    read.domain = category->value_or(std::string());
    if (!category->is_string())
      read.notes.push_back(absl::StrCat("metadata.category: ", Shown(*category), ", so the task has no domain"));
  }
  task.root.Sub("task");
  if (task.root.Lists("steps")) task.root.Reject("it has multiple steps");
  CheckVerifier(task.verifier);
  CheckEnvironment(task.environment);
  for (const Section* const section : {&task.environment, &task.agent, &task.verifier}) CheckNetwork(*section);
}

// Returns whether the text breaks the parser, which reads it from the beginning.
bool Breaks(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const toml::parse_error&) {
    return false;
  } catch (const BrokenToml&) {
    return true;
  }
  return false;
}

// Returns the line where `text` breaks the parser. REQUIRES: Breaks(text).
int64_t BrokenLine(std::string_view text) {
  std::vector<size_t> ends;  // offset of each line's end
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ends.push_back(at + 1);
  const auto broken =
      std::partition_point(ends.begin(), ends.end(), [&](size_t end) { return !Breaks(text.substr(0, end)); });
  return 1 + (broken - ends.begin());
}

}  // namespace

absl::Status ReadHarborToml(const std::string& text, HarborToml& read) {
  if (const auto line = LineOfDeepKey(text, kDeepestKey)) {
    return absl::InvalidArgumentError(absl::StrCat("task.toml, line ", *line, ": a key has more than ", kDeepestKey,
                                                   " dots; no Harbor key has so many"));
  }
  try {
    const toml::table table = toml::parse(text);
    NoteUnknown("", table, read.notes);
    absl::Status fault;
    ReadFields(Sections(table, fault), read);
    return fault;
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("task.toml, line ", error.source().begin.line, ": ", std::string(error.description())));
  } catch (const BrokenToml&) {
    return absl::InvalidArgumentError(
        absl::StrCat("task.toml, line ", BrokenLine(text), ": not valid TOML: check the brackets and quotation marks"));
  }
}

}  // namespace ingot::dataset
