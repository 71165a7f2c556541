#include "app/record/run_page.h"

#include <functional>
#include <utility>

#include "app/cluster/status/socket_question.h"
#include "app/record/fresh_pool.h"
#include "app/record/opened_runs.h"
#include "app/record/run_list.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "gateway/options.h"
#include "http/site_check.h"
#include "trainer/advantages/branch_advantage.h"
#include "trainer/advantages/group_rows.h"

namespace ingot::app {
namespace {

constexpr char kLinkPath[] = "/link";

std::string SocketOf(const std::string& folder) { return folder + "/sockets/page.sock"; }

view::RunFacts FactsOf(const RunConfig& config) {
  view::RunFacts facts;
  const scheduler::SchedulerOptions& options = config.scheduler;
  facts.supervised = config.tasks.empty();
  facts.total_steps = facts.supervised ? 0 : options.total_steps;
  facts.groups_per_step = options.groups_per_step;
  facts.group_size = options.group_size;
  facts.max_staleness = options.max_staleness;
  facts.budget = options.window().Budget();
  facts.window = options.window().Window();
  if (!config.agents.recipes.empty()) facts.concurrency = config.agents.concurrency;
  for (const auto& recipe : config.agents.recipes) facts.scaffolds.push_back(recipe.name);
  return facts;
}

// Returns the advantages that the trainer uses for a group, unless they depend on the batch.
std::vector<std::vector<double>> GroupAdvantages(const trainer::TrainerOptions& options, const v1::Group& group) {
  if (options.advantage_baseline == "batch" || options.advantage_normalization == "batch" || options.by_terms()) {
    return {};
  }
  std::vector<std::vector<double>> advantages(static_cast<size_t>(group.episodes_size()));
  const auto trained = trainer::RowsOf(group, trainer::RowRule::Of(options));
  if (!trained.ok() || trained->rows.rows.empty()) return advantages;
  const trainer::AdvantageRule rule{options.advantage_baseline, options.advantage_normalization, false,
                                    options.advantage_branches, options.by_role()};
  const trainer::BranchedAdvantages found = trainer::AdvantagesOfRows({trained->rows}, rule).front();
  for (const trainer::TrainedGroup::Part& part : trained->parts) {
    advantages[static_cast<size_t>(part.episode)] = (part.trunk ? found.trunks : found.rows)[part.index];
  }
  return advantages;
}

view::RunSource SourceOf(const RunConfig& config, const std::string& folder,
                         std::shared_ptr<const text::Tokenizer> tokenizer) {
  view::RunSource source;
  source.name = config.name;
  source.folder = folder;
  source.facts = FactsOf(config);
  source.tokenizer = std::move(tokenizer);
  source.advantages = [options = config.trainer](const v1::Group& group) { return GroupAdvantages(options, group); };
  return source;
}

// Adds the configuration's TLS settings if the options have none, and its additional names and origins.
http::Options WithConfig(http::Options options, const RunConfig& config) {
  if (options.tls_certificate.empty() && options.tls_key.empty()) {
    options.tls_certificate = config.http.tls_certificate;
    options.tls_key = config.http.tls_key;
  }
  options.allow_plaintext = options.allow_plaintext || config.http.allow_plaintext;
  const auto add = [](const std::vector<std::string>& more, std::vector<std::string>& to) {
    to.insert(to.end(), more.begin(), more.end());
  };
  add(config.http.allow_hosts, options.allow_hosts);
  add(config.http.allow_origins, options.allow_origins);
  if (!config.gateway.public_url.empty()) options.allow_hosts.emplace_back(http::HostOfUrl(config.gateway.public_url));
  return options;
}

http::Options HttpOf(const RunConfig& config, const PageOptions& page) {
  http::Options options;
  options.host = page.host;
  options.port = page.port;
  return WithConfig(std::move(options), config);
}

FreshPool::Pool OpenAgain(const std::string& folder) {
  INGOT_ASSIGN_OR_RETURN(StoredRun run, OpenRunFolder(folder));
  if (!run.no_pool.empty()) return absl::NotFoundError(run.no_pool);
  return std::move(run.pool);
}

// Returns a function that reports whether a run's configuration has changed since its page was created.
std::function<std::string()> SaysWhatChanged(const std::string& folder) {
  const std::string path = folder + "/config.yaml";
  return [path, made_of = base::ReadFile(path).value_or("")]() -> std::string {
    const absl::StatusOr<std::string> now = base::ReadFile(path);
    if (now.ok() && *now == made_of) return "";
    const std::string change =
        now.ok() ? "has changed since this page was opened: the run was replaced, or continues with other settings"
                 : "can no longer be read: the run was removed, or is being replaced";
    return absl::StrCat(path, " ", change,
                        ". Name, settings, and tokenizer on this page are out of date: restart `ingot view`");
  };
}

// The source of a folder's page, and its configuration.
struct FolderSource {
  LoadedConfig loaded;
  view::RunSource source;
};

absl::StatusOr<FolderSource> SourceOfFolder(const std::string& folder) {
  std::function<std::string()> outdated = SaysWhatChanged(folder);  // before reading it
  INGOT_ASSIGN_OR_RETURN(StoredRun stored, OpenRunFolder(folder));
  INGOT_ASSIGN_OR_RETURN(const TextParts text, stored.Text());
  view::RunSource source = SourceOf(stored.config(), folder, text.tokenizer);
  source.outdated = std::move(outdated);
  FreshPool::Pool first = std::move(stored.pool);
  if (!stored.no_pool.empty()) first = absl::NotFoundError(stored.no_pool);
  source.pool = [fresh = std::make_shared<FreshPool>([folder] { return OpenAgain(folder); }, std::move(first))] {
    return fresh->Get();
  };
  return FolderSource{std::move(stored.loaded), std::move(source)};
}

absl::StatusOr<view::OpenedRun> OpenView(const std::string& folder) {
  INGOT_ASSIGN_OR_RETURN(FolderSource of, SourceOfFolder(folder));
  auto pool = of.source.pool;
  return view::OpenedRun{std::make_shared<view::RunView>(std::move(of.source)), std::move(pool)};
}

}  // namespace

// Serves GET /link on a Unix socket.
class LinkEndpoint final : public http::Handler {
 public:
  static absl::StatusOr<std::unique_ptr<LinkEndpoint>> Start(const std::string& path, view::Page& page) {
    http::Options options;
    options.unix_socket = path;
    options.max_connections = 16;
    options.max_body_bytes = options.max_buffered_bytes = 4096;
    auto endpoint = std::unique_ptr<LinkEndpoint>(new LinkEndpoint(page));
    INGOT_ASSIGN_OR_RETURN(endpoint->server_, http::Server::Listen(options, *endpoint));
    endpoint->server_->Serve();
    return endpoint;
  }
  http::Opening Head(http::RequestHead head) override {
    if (head.method != "GET" || head.target != kLinkPath) return {.rejection = {.status = 404}};
    return {.exchange = http::MakeExchange([this](const std::string&) {
              return http::Reply{.content_type = "text/plain; charset=utf-8", .body = page_.NewLink()};
            })};
  }

 private:
  explicit LinkEndpoint(view::Page& page) : page_(page) {}
  view::Page& page_;
  std::unique_ptr<http::Server> server_;  // declared last because it must stop first
};

RunPage::~RunPage() { links_.reset(); }

absl::StatusOr<std::unique_ptr<RunPage>> RunPage::OfRunning(const RunConfig& config, const RunDir& dir,
                                                            const RoleClients& clients,
                                                            std::shared_ptr<const text::Tokenizer> tokenizer,
                                                            const std::string& no_pool,
                                                            std::function<std::string()> trainer) {
  if (!config.page.enabled) return nullptr;
  view::RunSource source = SourceOf(config, dir.path(), std::move(tokenizer));
  source.pool = [pool = clients.pool, no_pool]() -> absl::StatusOr<std::shared_ptr<datapool::Client>> {
    if (pool == nullptr) return absl::NotFoundError(no_pool);
    return pool;
  };
  source.live = [scheduler = clients.scheduler, engines = clients.engines, gateways = clients.gateways,
                 trainer = std::move(trainer)] {
    view::LiveState state;
    state.gateways = AskUncalled(gateways).all;
    state.trainer = trainer();
    if (scheduler != nullptr) state.scheduler = scheduler->Status();
    for (const auto& [name, engine] : engines) state.engines.emplace_back(name, engine->Status());
    return state;
  };
  INGOT_ASSIGN_OR_RETURN(std::string key, gateway::ReadAdminKey(config.gateway));
  if (!key.empty() && !clients.gateways.empty()) {
    source.end_uncalled = [gateways = clients.gateways](const std::string& episode_id, const std::string& sent) {
      return EndUncalled(gateways, episode_id, sent);
    };
  }
  auto run_page = std::unique_ptr<RunPage>(new RunPage());
  auto page = view::Page::Start(HttpOf(config, config.page), std::move(key), std::move(source));
  if (!page.ok() && config.page.port != 0) return base::Annotate(page.status(), "http.dashboard_port");
  if (!page.ok()) {
    INGOT_LOG(warn, "the run has no page: {}", std::string(page.status().message()));
    return nullptr;
  }
  run_page->page_ = *std::move(page);
  auto links = LinkEndpoint::Start(SocketOf(dir.path()), *run_page->page_);
  if (links.ok()) run_page->links_ = *std::move(links);
  if (!links.ok())
    INGOT_LOG(warn, "`ingot view` will not find this run's page: {}", std::string(links.status().message()));
  return run_page;
}

absl::StatusOr<std::unique_ptr<RunPage>> RunPage::OfFolder(const std::string& folder, http::Options options) {
  INGOT_ASSIGN_OR_RETURN(FolderSource of, SourceOfFolder(folder));
  const RunConfig& config = *of.loaded.config;
  return OfAnswers(WithConfig(options, config), std::make_unique<view::RunView>(std::move(of.source)));
}

absl::StatusOr<std::unique_ptr<RunPage>> RunPage::OfRuns(const std::string& folder, http::Options options) {
  auto runs = [list = std::make_shared<RunList>(folder), turn = std::make_shared<base::Mutex>()] {
    base::MutexLock lock(*turn);
    return list->Read();
  };
  auto open = [opened = std::make_shared<OpenedRuns>(OpenView),
               turn = std::make_shared<base::Mutex>()](const std::string& run) {
    base::MutexLock lock(*turn);
    return opened->Of(run);
  };
  return OfAnswers(std::move(options), std::make_unique<view::RunIndex>(folder, std::move(runs), std::move(open)));
}

absl::StatusOr<std::unique_ptr<RunPage>> RunPage::OfAnswers(http::Options options,
                                                            std::unique_ptr<view::Answers> answers) {
  const std::string host = options.host;
  auto run_page = std::unique_ptr<RunPage>(new RunPage());
  auto page = view::Page::Start(std::move(options), "", std::move(answers));
  if (absl::IsFailedPrecondition(page.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--host ", host,
        " can be reached from other machines: add --tls-certificate and --tls-key, or, on a private network, ",
        "--allow-plaintext"));
  }
  INGOT_ASSIGN_OR_RETURN(run_page->page_, std::move(page));
  return run_page;
}

absl::StatusOr<std::string> RequestLink(const std::string& folder) {
  INGOT_ASSIGN_OR_RETURN(const http::Answer answer, AskSocket(SocketOf(folder), kLinkPath, "the run"));
  if (answer.status != 200) return absl::UnavailableError("the run's page returned no link");
  return answer.body;
}

}  // namespace ingot::app
