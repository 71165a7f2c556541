#include "app/checks/doctor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "app/checks/port_check.h"
#include "base/log.h"
#include "base/process_memory.h"
#include "kernels/attention/attention.h"
#include "sandbox/substrate.h"
#include "view/bundle.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr int kFsyncs = 20;

std::string Gigabytes(int64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

// Returns the nearest existing ancestor of `path`.
fs::path Existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path;
}

Finding ExamineDisk(const std::string& root) {
  const fs::path folder = Existing(root);
  std::string name = (folder / ".ingot-doctor-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) {
    return {Health::kBroken, "disk", absl::StrCat("cannot create a file in ", folder.string()),
            "set run.root to another folder, or give this user write access to it"};
  }
  std::vector<double> times;
  for (int i = 0; i < kFsyncs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const bool written = ::pwrite(fd, "x", 1, i) == 1 && ::fdatasync(fd) == 0;
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (!written) break;
  }
  ::close(fd);
  ::unlink(name.c_str());
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  Finding finding = JudgeFsync(times[times.size() / 2], folder.string());
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error) finding.text += absl::StrCat("; ", Gigabytes(static_cast<int64_t>(space.available)), " free");
  return finding;
}

Finding ExamineSandbox(const RunConfig& config) {
  sandbox::SubstrateOptions options = config.sandbox;
  options.require = "none";
  options.work_root = (fs::temp_directory_path() / "ingot-doctor-XXXXXX").string();
  if (mkdtemp(options.work_root.data()) == nullptr)
    return {Health::kBroken, "sandbox", absl::StrCat("cannot make ", options.work_root), "docs/guide/sandbox.md"};
  const auto substrate = sandbox::MakeSubstrate(options);
  std::error_code ignored;
  if (!substrate.ok()) {
    fs::remove_all(options.work_root, ignored);
    return {Health::kBroken, "sandbox", std::string(substrate.status().message()), "docs/guide/sandbox.md"};
  }
  const sandbox::ProbeResult probe_result = (*substrate)->probe_result();
  fs::remove_all(options.work_root, ignored);
  Finding finding{Health::kGood, "sandbox", probe_result.Describe(), ""};
  if (probe_result.is_open()) {
    finding.health = Health::kLimited;
    finding.remedy =
        "agents can read this user's files: run only agents that you trust, or start ingot as root or where user "
        "namespaces are allowed (docs/guide/sandbox.md)";
  }
  return finding;
}

Finding ExamineDevice() {
  const absl::StatusOr<DeviceChoice> device = OpenDevice("auto");
  if (!device.ok()) return {Health::kBroken, "GPU", std::string(device.status().message()), "docs/guide/gpu.md"};
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  return JudgeDevice(*device, nvml == nullptr ? DriverFacts() : nvml->Driver());
}

bool OnPath(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (::access((rest.substr(0, end) + "/" + program).c_str(), X_OK) == 0) return true;
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

Finding ExaminePorts(const RunConfig& config) {
  struct WantedPort {
    const char* key;
    std::string host;
    int port;
  };
  std::vector<WantedPort> wanted = {{"http.port", config.http.host, config.http.port},
                                    {"cluster.datapool_port", config.cluster.host, config.cluster.datapool_port},
                                    {"cluster.scheduler_port", config.cluster.host, config.cluster.scheduler_port},
                                    {"cluster.rewards_port", config.cluster.host, config.cluster.rewards_port},
                                    {"cluster.gateway_port", config.cluster.host, config.cluster.gateway_port},
                                    {"cluster.rollout_port", config.cluster.host, config.cluster.rollout_port}};
  if (config.page.enabled) wanted.push_back({"http.dashboard_port", config.page.host, config.page.port});
  if (config.metrics.port != 0) wanted.push_back({"metrics.port", config.metrics.host, config.metrics.port});
  std::string taken;
  for (size_t i = 0; i < wanted.size(); ++i) {
    for (size_t j = 0; j < i && wanted[i].port != 0; ++j) {
      if (wanted[j].port != wanted[i].port || wanted[j].host != wanted[i].host) continue;
      absl::StrAppend(&taken, taken.empty() ? "" : "; ", wanted[j].key, " and ", wanted[i].key, " are both ",
                      wanted[i].port);
    }
  }
  for (const WantedPort& one : wanted) {
    if (const absl::Status free = CheckPort(one.key, one.host, one.port); !free.ok()) {
      absl::StrAppend(&taken, taken.empty() ? "" : "; ", free.message());
    }
  }
  if (taken.empty()) return {Health::kGood, "ports", "the configured ports are free"};
  return {Health::kLimited, "ports", taken,
          "another run may use them: set http.port=0 and http.dashboard_port=0 to use any free port, and "
          "metrics.port=0 to open none; cluster.* ports matter only for `ingot launch`"};
}

Finding JudgeInstructionSet(const std::string& name) {
  if (name == "amx") return {Health::kGood, "processor", "AMX: bf16 at full speed"};
  if (name == "avx512bf16") return {Health::kGood, "processor", "AVX512-BF16"};
  if (name == "avx512" || name == "avx2") {
    return {Health::kLimited, "processor", absl::StrCat(name, ": bf16 is slower than on a processor with AVX512-BF16"),
            "fp32 may be as fast here: compare with `ingot bench attention`"};
  }
  return {Health::kLimited, "processor", "no vector instructions that Ingot supports: everything is slow",
          "use an x86 processor with AVX2 or newer"};
}

Finding JudgeMemory(int64_t available_bytes) {
  constexpr int64_t kEnough = int64_t{4} << 30;
  const std::string text = Gigabytes(available_bytes) + " available";
  if (available_bytes >= kEnough) return {Health::kGood, "memory", text};
  return {Health::kLimited, "memory", text,
          "stop other programs, or lower rollout.kv_cache_tokens and trainer.micro_batch_tokens"};
}

Finding JudgeDevice(const DeviceChoice& device, const DriverFacts& driver) {
  constexpr int kToolkit = 13000;  // for torch 2.11 from PyPI and for scripts/setup.sh cuda
  if (!device.fell_back && device.users.empty()) return {Health::kGood, "GPU", device.description};
  if (!device.fell_back) {
    return {Health::kLimited, "GPU", device.description,
            "a run may exhaust the GPU's memory: end the other processes, or choose another GPU with "
            "CUDA_VISIBLE_DEVICES"};
  }
  if (driver.cuda_version == 0 || driver.cuda_version >= kToolkit) {
    return {Health::kLimited, "GPU", device.description, "docs/guide/gpu.md lists the requirements for GPUs"};
  }
  std::string text = device.description;
  if (text.find(driver.version) == std::string::npos) {  // a build without the library has not seen the driver
    text = absl::StrCat("driver ", driver.version, " supports CUDA ", CudaVersion(driver.cuda_version), "; CUDA ",
                        CudaVersion(kToolkit), " needs driver ", LeastDriver(kToolkit), " or newer. ", text);
  }
  return {Health::kLimited, "GPU", text,
          "update the driver. Without an update: compute on the CPU (device=cpu), install cuda-compat-13-0 on a data "
          "center GPU, or sample with a vLLM server built for CUDA 12 (docs/guide/gpu.md, Older drivers)"};
}

Finding JudgeOpenFiles(uint64_t soft, uint64_t hard) {
  constexpr uint64_t kEnough = 4096;
  const std::string text = absl::StrCat("up to ", hard, " (", soft, " without asking)");
  if (hard >= kEnough) return {Health::kGood, "open files", text};
  return {Health::kLimited, "open files", text, "raise the hard limit on open files: ulimit -Hn 65536"};
}

Finding JudgeFsync(double milliseconds, const std::string& folder) {
  const std::string text = fmt::format("{}: {:.2f} ms for a durable write", folder, milliseconds);
  if (milliseconds < 20) return {Health::kGood, "disk", text};
  return {Health::kLimited, "disk", text,
          "every call of an episode waits for a durable write: put run.root on a local disk"};
}

std::vector<Finding> Examine(const RunConfig& config) {
  std::vector<Finding> findings;
  findings.push_back({Health::kGood, "cores", absl::StrCat(std::thread::hardware_concurrency())});
  findings.push_back(JudgeInstructionSet(kernels::InstructionSet()));
  findings.push_back(JudgeMemory(base::AvailableMemory()));
  findings.push_back(ExamineDevice());
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) findings.push_back(JudgeOpenFiles(files.rlim_cur, files.rlim_max));
  findings.push_back(ExamineDisk(config.root));
  findings.push_back(ExamineSandbox(config));
  findings.push_back(ExaminePorts(config));
  findings.push_back(OnPath("python3") ? Finding{Health::kGood, "python3", "found; the example agents use it"}
                                       : Finding{Health::kLimited, "python3", "missing",
                                                 "the example agents need it: apt install python3"});
  findings.push_back(view::Bundle().empty() ? Finding{Health::kLimited, "page", "this ingot was built without its page",
                                                      "install nodejs and npm, and build again"}
                                            : Finding{Health::kGood, "page", "built in"});
  return findings;
}

std::string FormatFindings(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const char* const mark = finding.health == Health::kGood      ? "ok   "
                             : finding.health == Health::kLimited ? "note "
                                                                  : "WRONG";
    text += fmt::format("{} {:<11} {}\n", mark, finding.subject, finding.text);
    if (!finding.remedy.empty()) text += fmt::format("{:17} {}\n", "", "to do: " + finding.remedy);
  }
  return text;
}

}  // namespace ingot::app
