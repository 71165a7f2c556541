// Time and CPU that the gateway adds to a call. Agents hold conversations of growing bodies (20 to 140 KB, 80 KB on
// average), streamed and recorded durably. A direct server of the same engine is measured in turns, in the same run.
//
//   gateway_bench [--rate 1000] [--seconds 4] [--rounds 3] [--minutes 0] [--model DIR] [--folder DIR] [--agents 512]
//                 [--poisson] [--io-threads 1] [--workers 16] [--chunks 4] [--gap-us 2000] [--no-pool] [--shards 1]
//                 [--first-bytes 20000] [--last-bytes 140000] [--turn-bytes 1300] [--idle 0]
//                 [--api chat|messages|responses]
//
// Three processes: the client (open loop, one thread), the gateway (HTTP, its workers, a stub engine, a data pool on
// RocksDB in --folder with its fsyncs) and a direct server around the same stub engine, which replays one recorded
// answer of the gateway. Each round loads the direct server, then the gateway, for --seconds at --rate. With --minutes
// only the gateway is loaded for that long, and its memory is printed every 10 s. --model: a folder with tokenizer.json
// and chat template; otherwise ids are bytes.
//
// Latency counts from the time at which a request was due. First byte: the response begins with the first event.
// Terminal: "[DONE]" ends the response; the gateway sends it after the durable append. Not measured: an engine's
// own work, TLS, gRPC, a network.
//
// With --idle N, N streams stay silent after their first event, and the gateway's memory for them is printed. Nothing
// else runs then.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "datapool/store.h"
#include "gateway/direct_server.h"
#include "gateway/http/http_server.h"
#include "gateway/load_client.h"
#include "gateway/stub_engine.h"
#include "gateway/timed_pool.h"
#include "http/limits.h"
#include "text/chat/chat.h"

namespace ingot::bench {
namespace {

struct Settings {
  double rate = 1000, seconds = 4, minutes = 0;
  int rounds = 3, io_threads = 1, workers = 16, chunks = 4, gap_us = 2000, shards = 1;
  std::string model, folder, api = "chat";
  bool pool = true;
  int idle = 0;
  LoadOptions load;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "gateway_bench: %s\n", what.c_str());
  std::exit(1);
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().ToString());
  return *std::move(value);
}

constexpr char kReasoning[] = "The error says where it comes from, so the file that opens the connection is next.";
constexpr char kContent[] = "Let me look at the next file, and at what calls it.\n";
constexpr char kArguments[] = R"({"path": "src/gateway/connection.cc", "line": 120})";

struct Model {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  std::vector<int32_t> answer;
};

Model LoadModel(const std::string& folder) {
  Model model;
  if (folder.empty()) {
    model.tokenizer = text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>", "<|endoftext|>"});
    model.format = Value(text::MakeChatFormat("hermes", model.tokenizer));
  } else {
    model.tokenizer = Value(text::LoadTokenizer(folder));
    model.format = Value(text::LoadChatFormat(folder, model.tokenizer, ""));
  }
  model.answer = model.tokenizer->Encode(
      absl::StrCat("<think>\n", kReasoning, "\n</think>\n\n", kContent,
                   "<tool_call>\n{\"name\": \"read\", \"arguments\": ", kArguments, "}\n</tool_call>"),
      true);
  model.answer.push_back(model.format->end_of_turn_ids().front());
  return model;
}

// ---- The servers, each in its own process ---------------------------------------------------------------------------

// Serves until the parent closes its end of the pipe.
struct Server {
  pid_t pid = 0;
  int port = 0;
  int stop = -1;
};

// `serve` reports its port, then calls the function that waits.
Server Fork(const std::function<void(std::function<void(int)> listening)>& serve) {
  int to_child[2], to_parent[2];
  if (pipe(to_child) != 0 || pipe(to_parent) != 0) Die("no pipe");
  Server server;
  server.pid = fork();
  if (server.pid == 0) {
    close(to_child[1]);
    serve([&](int port) {
      if (write(to_parent[1], &port, sizeof(port)) != sizeof(port)) std::exit(1);
      char byte;
      while (read(to_child[0], &byte, 1) > 0) {
      }
    });
    std::fflush(stdout);
    std::_Exit(0);
  }
  close(to_child[0]);
  close(to_parent[1]);
  if (read(to_parent[0], &server.port, sizeof(server.port)) != sizeof(server.port)) Die("a server did not start");
  close(to_parent[0]);
  server.stop = to_child[1];
  return server;
}

void Stop(const Server& server) {
  close(server.stop);
  int status = 0;
  waitpid(server.pid, &status, 0);
  if (status != 0) Die("a server failed");
}

StubEngine::Options EngineOptions(const Settings& settings, const Model& model) {
  const std::chrono::microseconds gap =
      settings.idle > 0 ? std::chrono::minutes(5) : std::chrono::microseconds(settings.gap_us);
  return {.answer = model.answer, .chunks = settings.chunks, .gap = gap};
}

void ServeDirect(const Settings& settings, const Model& model, std::vector<std::string> events,
                 const std::function<void(int)>& listening) {
  StubEngine engine(EngineOptions(settings, model));
  DirectServer server(engine, std::move(events));
  listening(server.port());
}

void ServeGateway(const Settings& settings, const Model& model, Appends* appends,
                  const std::function<void(int)>& listening) {
  datapool::StoreOptions store;
  store.path = settings.folder;
  store.shards = settings.shards;
  TimedPool pool(Value(datapool::OpenPool(store)), appends);
  gateway::GatewayOptions options;
  options.worker_threads = settings.workers;
  gateway::GatewayParts parts;
  parts.engine = std::make_shared<StubEngine>(EngineOptions(settings, model));
  parts.pool = settings.pool ? &pool : nullptr;
  parts.tokenizer = model.tokenizer;
  parts.format = model.format;
  const auto gateway = Value(gateway::Gateway::Create(options, parts));
  http::Options http;
  http.port = 0;
  http.io_threads = settings.io_threads;
  const auto server = Value(gateway::HttpServer::Start(http, *gateway));
  listening(server->port());
  const v1::GatewayStatusResponse status = gateway->Status();
  std::printf("gateway: %lld calls, %lld of them spliced", static_cast<long long>(status.calls()),
              static_cast<long long>(status.spliced_calls()));
  for (const auto& [cause, count] : status.forks())
    std::printf(", %s %lld", cause.c_str(), static_cast<long long>(count));
  std::printf("\n");
}

// ---- Figures --------------------------------------------------------------------------------------------------------

double Quantile(std::vector<float> values, double q) {
  if (values.empty()) return 0;
  const size_t at = std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double CpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ResidentMb(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// One server's figures over all rounds.
struct Sum {
  std::vector<float> first, terminal;
  double seconds = 0, server_cpu = 0, client_cpu = 0;
  int64_t bytes = 0, unsent = 0;

  void Load(LoadClient& client, const Settings& settings, const Server& server) {
    const double server_before = CpuSeconds(server.pid), client_before = CpuSeconds(getpid());
    const LoadResult result = client.Run(settings.rate, settings.seconds);
    server_cpu += CpuSeconds(server.pid) - server_before;
    client_cpu += CpuSeconds(getpid()) - client_before;
    first.insert(first.end(), result.first_byte.begin(), result.first_byte.end());
    terminal.insert(terminal.end(), result.terminal.begin(), result.terminal.end());
    seconds += result.seconds;
    bytes += result.bytes_sent;
    unsent += result.unsent;
  }

  void Print(const char* name) const {
    const double calls = static_cast<double>(std::max<size_t>(terminal.size(), 1));
    std::printf(
        "%-8s %6.0f/s %6.1f KB  first byte p50 %7.3f p99 %7.3f max %7.2f  terminal p50 %7.3f p99 %7.3f  "
        "CPU us/call: server %5.0f client %4.0f  unsent %lld\n",
        name, calls / seconds, static_cast<double>(bytes) / calls / 1e3, Quantile(first, 0.5), Quantile(first, 0.99),
        Quantile(first, 1), Quantile(terminal, 0.5), Quantile(terminal, 0.99), server_cpu / calls * 1e6,
        client_cpu / calls * 1e6, static_cast<long long>(unsent));
  }
};

void Compare(const Settings& settings, const Model& model, const Api& api, const Server& gateway,
             LoadClient& gateway_client, const Appends& appends) {
  // The direct server replays an answer of the gateway.
  const std::vector<std::string> events = gateway_client.Record(settings.chunks);
  const Server direct = Fork([&](const auto& listening) { ServeDirect(settings, model, events, listening); });
  LoadClient direct_client(direct.port, settings.load, api);
  Sum without, with;
  const uint64_t before = appends.count;
  for (int round = 0; round < settings.rounds; ++round) {
    without.Load(direct_client, settings, direct);
    with.Load(gateway_client, settings, gateway);
  }
  without.Print("direct");
  with.Print("gateway");
  const auto added = [](const std::vector<float>& a, const std::vector<float>& b, double q) {
    return Quantile(a, q) - Quantile(b, q);
  };
  std::printf(
      "added                        first byte p50 %7.3f p99 %7.3f              terminal p50 %7.3f p99 %7.3f ms\n",
      added(with.first, without.first, 0.5), added(with.first, without.first, 0.99),
      added(with.terminal, without.terminal, 0.5), added(with.terminal, without.terminal, 0.99));
  const std::vector<float> durable = appends.Since(before);
  std::printf("durable append               p50 %.3f p99 %.3f ms, %zu appends\n", Quantile(durable, 0.5),
              Quantile(durable, 0.99), durable.size());
  Stop(direct);
}

void WatchMemory(const Settings& settings, const Server& gateway, LoadClient& client) {
  constexpr double kStep = 10;
  Settings step = settings;
  step.seconds = kStep;
  for (int i = 0; i < static_cast<int>(settings.minutes * 60 / kStep); ++i) {
    Sum sum;
    sum.Load(client, step, gateway);
    std::printf("%4.0f s  %7.1f MB  ", (i + 1) * kStep, ResidentMb(gateway.pid));
    sum.Print("gateway");
    std::fflush(stdout);
  }
}

size_t OpenFiles(pid_t pid) {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

void HoldIdleStreams(const Settings& settings, const Server& gateway) {
  if (const auto status = http::RaiseFileLimit(settings.idle); !status.ok()) Die(status.ToString());
  const double before_mb = ResidentMb(gateway.pid), before_cpu = CpuSeconds(gateway.pid);
  const size_t before_files = OpenFiles(gateway.pid);
  const IdleStreams streams(gateway.port, settings.idle);
  const double mb = ResidentMb(gateway.pid) - before_mb, cpu = CpuSeconds(gateway.pid);
  std::printf(
      "%d idle streams: %.1f MB, %.1f KB each; %zu open files in addition to %zu; opened with %.0f us of CPU each\n",
      settings.idle, mb, mb * 1e3 / settings.idle, OpenFiles(gateway.pid) - before_files, before_files,
      (cpu - before_cpu) / settings.idle * 1e6);
  std::this_thread::sleep_for(std::chrono::seconds(20));
  std::printf("20 s later, with a comment to each: %.1f MB more, %.0f us of CPU each\n",
              ResidentMb(gateway.pid) - before_mb - mb, (CpuSeconds(gateway.pid) - cpu) / settings.idle * 1e6);
}

Settings ReadArguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--poisson") {
      settings.load.poisson = true;
      continue;
    }
    if (name == "--no-pool") {
      settings.pool = false;
      continue;
    }
    if (i + 1 == argc) Die(name + " needs a value, or is not known: see the top of gateway_bench.cc");
    const std::string text = argv[++i];
    const double number = std::atof(text.c_str());
    const int whole = static_cast<int>(number);
    if (name == "--rate")
      settings.rate = number;
    else if (name == "--seconds")
      settings.seconds = number;
    else if (name == "--minutes")
      settings.minutes = number;
    else if (name == "--rounds")
      settings.rounds = whole;
    else if (name == "--io-threads")
      settings.io_threads = whole;
    else if (name == "--workers")
      settings.workers = whole;
    else if (name == "--chunks")
      settings.chunks = std::max(2, whole);
    else if (name == "--gap-us")
      settings.gap_us = whole;
    else if (name == "--shards")
      settings.shards = whole;
    else if (name == "--idle")
      settings.idle = whole;
    else if (name == "--agents")
      settings.load.agents = whole;
    else if (name == "--first-bytes")
      settings.load.first_bytes = whole;
    else if (name == "--last-bytes")
      settings.load.last_bytes = whole;
    else if (name == "--turn-bytes")
      settings.load.turn_bytes = whole;
    else if (name == "--model")
      settings.model = text;
    else if (name == "--api")
      settings.api = text;
    else if (name == "--folder")
      settings.folder = text;
    else
      Die(name + " is not known: see the top of gateway_bench.cc");
  }
  return settings;
}

int Run(Settings settings) {
  const Model model = LoadModel(settings.model);
  std::string made = (std::filesystem::temp_directory_path() / "ingot-bench-XXXXXX").string();
  const bool temporary = settings.folder.empty();
  if (temporary) settings.folder = ::mkdtemp(made.data());
  Appends* appends = Appends::Shared();
  const auto api = MakeApi(settings.api);
  if (api == nullptr) Die("--api is chat, messages or responses");
  const Server gateway = Fork([&](const auto& listening) { ServeGateway(settings, model, appends, listening); });
  if (settings.idle > 0) {
    HoldIdleStreams(settings, gateway);
  } else {
    LoadClient gateway_client(gateway.port, settings.load, *api);
    if (settings.rounds > 0) Compare(settings, model, *api, gateway, gateway_client, *appends);
    if (settings.minutes > 0) WatchMemory(settings, gateway, gateway_client);
    std::fflush(stdout);
  }
  std::fflush(stdout);
  Stop(gateway);
  if (temporary) std::filesystem::remove_all(settings.folder);
  return 0;
}

}  // namespace
}  // namespace ingot::bench

int main(int argc, char** argv) {
  ingot::base::InitLogging("bench", "warn", "");
  return ingot::bench::Run(ingot::bench::ReadArguments(argc, argv));
}
