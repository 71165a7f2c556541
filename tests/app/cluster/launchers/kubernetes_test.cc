// The objects of a run on Kubernetes, and the watch over them. kubernetes_objects_test.py holds them against the API's
// schemas.
#include "app/cluster/launchers/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <atomic>

#include "app/cluster/launchers/kubernetes_launcher.h"

namespace ingot::app::kubernetes_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunConfig Clustered() {
  RunConfig config;
  config.name = "math-1";
  config.root = "/runs";
  config.tasks = "tasks.jsonl";
  config.agents.recipes.emplace_back();
  config.gateway.admin_key_file = "/run/ingot/admin";
  config.http.host = "0.0.0.0";
  config.http.allow_plaintext = true;
  ClusterOptions& cluster = config.cluster;
  cluster.rollout_engines = 8;
  cluster.registry.kind = RegistryKind::kEtcd;
  cluster.registry.endpoints = {"etcd:2379"};
  const std::map<std::string, std::string> small = {{"cpu", "4"}, {"memory", "16Gi"}};
  cluster.groups = {{"control", 1, {"datapool", "scheduler", "agents"}, 1, {}, small},
                    {"front", 1, {"gateway"}, 1, {}, small},
                    {"trainer", 1, {"trainer"}, 1, {}, {{"cpu", "16"}, {"memory", "200Gi"}, {"nvidia.com/gpu", "8"}}},
                    {"engines", 2, {"rollout"}, 4, {}, {{"cpu", "8"}, {"memory", "64Gi"}, {"nvidia.com/gpu", "4"}}}};
  KubernetesOptions& options = cluster.kubernetes;
  options.image = "registry.example/ingot:1";
  options.volume_claim = "runs";
  options.token_secret = "run-token";
  options.tls_secret = "run-tls";
  options.env = {{"PGPASSWORD", "pool/password"}};
  return config;
}

std::string Fault(const RunConfig& config) {
  return std::string(RenderKubernetes(config, "run:\n  name: math-1\n").status().message());
}

std::vector<YAML::Node> Rendered(const RunConfig& config) {
  const auto objects = RenderKubernetes(config, "run:\n  name: math-1\n\n  # \"quoted\"\n");
  EXPECT_TRUE(objects.ok()) << objects.status();
  return YAML::LoadAll(PrintYaml(*objects));
}

YAML::Node Named(const std::vector<YAML::Node>& objects, const std::string& kind, const std::string& name) {
  for (const YAML::Node& one : objects) {
    if (one["kind"].as<std::string>() == kind && one["metadata"]["name"].as<std::string>() == name) return one;
  }
  ADD_FAILURE() << "no " << kind << " " << name;
  return {};
}

std::vector<std::string> Texts(const YAML::Node& list) { return list.as<std::vector<std::string>>(); }

TEST(Kubernetes, EachGroupIsTheKindOfObjectThatKeepsWhatItHasToKeep) {
  const auto objects = Rendered(Clustered());
  EXPECT_EQ(Named(objects, "ConfigMap", "ingot-math-1")["data"]["run.yaml"].as<std::string>(),
            "run:\n  name: math-1\n\n  # \"quoted\"\n");
  EXPECT_EQ(Named(objects, "Service", "ingot-math-1")["spec"]["clusterIP"].as<std::string>(), "None");
  EXPECT_EQ(Named(objects, "StatefulSet", "ingot-math-1-engines")["spec"]["replicas"].as<int>(), 2);
  Named(objects, "StatefulSet", "ingot-math-1-control");
  Named(objects, "Deployment", "ingot-math-1-front");
  Named(objects, "Job", "ingot-math-1-trainer");
  EXPECT_EQ(objects.size(), 9) << "and a Service for agents, and a budget for control and trainer";
  EXPECT_EQ(DecidingJob(Clustered()), "ingot-math-1-trainer");
}

TEST(Kubernetes, AServiceStandsInFrontOfSeveralGateways) {
  RunConfig config = Clustered();
  config.cluster.gateways = 2;
  config.cluster.groups[1].nodes = 2;
  config.http.port = 8080;
  config.http.host = "127.0.0.1";
  EXPECT_THAT(Fault(config), HasSubstr("http.host=0.0.0.0"));
  config.http.host = "0.0.0.0";
  const auto objects = Rendered(config);
  const YAML::Node service = Named(objects, "Service", "ingot-math-1-lb")["spec"];
  EXPECT_EQ(service["ports"][0]["port"].as<int>(), 8080);
  EXPECT_FALSE(service["publishNotReadyAddresses"].as<bool>()) << "another gateway answers";
  const YAML::Node pods = Named(objects, "StatefulSet", "ingot-math-1-front")["spec"];
  EXPECT_EQ(pods["replicas"].as<int>(), 2);
  for (const auto& label : service["selector"]) {
    EXPECT_EQ(pods["template"]["metadata"]["labels"][label.first.as<std::string>()].as<std::string>(),
              label.second.as<std::string>());
  }
  const YAML::Node others = Named(objects, "StatefulSet", "ingot-math-1-engines")["spec"]["template"]["metadata"];
  EXPECT_FALSE(others["labels"]["ingot/gateway"]);
  EXPECT_THAT(Texts(pods["template"]["spec"]["containers"][0]["args"]),
              Contains("gateway.public_url=http://ingot-math-1-lb.default:8080"));
  config.gateway.public_url = "https://agents.example";
  EXPECT_EQ(Rendered(config).size(), objects.size() - 1) << "its owner's address, and no Service";
}

TEST(Kubernetes, AServiceStandsInFrontOfAGatewayInAnotherPodThanTheAgents) {
  RunConfig config = Clustered();
  const auto objects = Rendered(config);
  const YAML::Node service = Named(objects, "Service", "ingot-math-1-lb")["spec"];
  EXPECT_EQ(service["ports"][0]["targetPort"].as<int>(), config.http.port);
  EXPECT_TRUE(service["publishNotReadyAddresses"].as<bool>()) << "agents come before its first probe";
  const YAML::Node pods = Named(objects, "Deployment", "ingot-math-1-front")["spec"]["template"];
  for (const auto& label : service["selector"]) {
    EXPECT_EQ(pods["metadata"]["labels"][label.first.as<std::string>()].as<std::string>(),
              label.second.as<std::string>());
  }
  EXPECT_THAT(Texts(pods["spec"]["containers"][0]["args"]),
              Contains("gateway.public_url=http://ingot-math-1-lb.default:8080"));

  config.http.host = "127.0.0.1";
  EXPECT_THAT(Fault(config), HasSubstr("agents and gateway in different pods: a Service is in front of the gateway, "
                                       "and needs http.port and http.host=0.0.0.0"));
  config.gateway.public_url = "https://agents.example";
  EXPECT_EQ(Fault(config), "") << "its owner's address";
  config.gateway.public_url.clear();
  config.http.host = "0.0.0.0";
  config.http.allow_plaintext = false;
  EXPECT_THAT(Fault(config), HasSubstr("gateway.tls.allow_plaintext")) << "the pod could not listen";
  config.http.host = "127.0.0.1";
  config.cluster.groups[0].roles.push_back("gateway");
  config.cluster.groups.erase(config.cluster.groups.begin() + 1);
  EXPECT_EQ(Rendered(config).size(), objects.size() - 2) << "one pod has both: no Deployment, and no Service";
}

TEST(Kubernetes, SeveralProcessesOfThePoolAreNumberedPodsOfWhichOneMayGoAtATime) {
  RunConfig config = Clustered();
  config.cluster.datapools = 2;
  config.cluster.groups[0].roles = {"scheduler", "agents"};
  config.cluster.groups.push_back({"pools", 2, {"datapool"}, 1, {}, {{"cpu", "4"}, {"memory", "16Gi"}}});
  const auto objects = Rendered(config);
  const YAML::Node pods = Named(objects, "StatefulSet", "ingot-math-1-pools")["spec"];
  EXPECT_EQ(pods["replicas"].as<int>(), 2);
  EXPECT_EQ(pods["serviceName"].as<std::string>(), "ingot-math-1");
  for (const auto& label : Named(objects, "Service", "ingot-math-1")["spec"]["selector"]) {
    EXPECT_EQ(pods["template"]["metadata"]["labels"][label.first.as<std::string>()].as<std::string>(),
              label.second.as<std::string>());
  }
  EXPECT_EQ(Named(objects, "PodDisruptionBudget", "ingot-math-1-pools")["spec"]["maxUnavailable"].as<int>(), 1);
  EXPECT_EQ(Named(objects, "PodDisruptionBudget", "ingot-math-1-trainer")["spec"]["maxUnavailable"].as<int>(), 0);
}

TEST(Kubernetes, APodRunsTheAgentOfItsNode) {
  const auto objects = Rendered(Clustered());
  const YAML::Node pod = Named(objects, "StatefulSet", "ingot-math-1-engines")["spec"]["template"]["spec"];
  const YAML::Node container = pod["containers"][0];
  EXPECT_THAT(Texts(container["args"]),
              ElementsAre("node", "/etc/ingot/run.yaml", "--group", "engines", "--resume", "--set",
                          "cluster.takeover_s=0", "--set", "cluster.host=$(POD_IP)", "--set",
                          "cluster.token_file=/run/ingot/token", "--set", "cluster.tls.certificate=/run/ingot/tls.crt",
                          "--set", "cluster.tls.key=/run/ingot/tls.key", "--set", "cluster.tls.ca=/run/ingot/ca.crt",
                          "--set", "gateway.public_url=http://ingot-math-1-lb.default:8080"));
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"].as<std::string>(), "4");
  EXPECT_EQ(container["env"][1]["name"].as<std::string>(), "INGOT_NODE");
  EXPECT_EQ(container["env"][1]["valueFrom"]["fieldRef"]["fieldPath"].as<std::string>(),
            "metadata.labels['apps.kubernetes.io/pod-index']");
  EXPECT_EQ(container["env"][2]["valueFrom"]["secretKeyRef"]["key"].as<std::string>(), "password");
  EXPECT_THAT(Texts(container["livenessProbe"]["exec"]["command"]), Contains("--probe"));
}

TEST(Kubernetes, APodHasTheTimeToStopInOrder) {
  RunConfig config = Clustered();
  config.cluster.trainer_stop_s = 900;
  const YAML::Node spec = Named(Rendered(config), "Job", "ingot-math-1-trainer")["spec"];
  EXPECT_EQ(spec["template"]["spec"]["terminationGracePeriodSeconds"].as<int>(), 960);
}

TEST(Kubernetes, AQueueAdmitsEveryWorkload) {
  RunConfig config = Clustered();
  config.cluster.kubernetes.queue = "team-a";
  config.cluster.kubernetes.jobset = true;
  const auto objects = Rendered(config);
  const YAML::Node set = Named(objects, "JobSet", "ingot-math-1-trainer");
  EXPECT_EQ(set["spec"]["failurePolicy"]["maxRestarts"].as<int>(), 0);
  EXPECT_EQ(DecidingJob(config), "ingot-math-1-trainer-trainer-0");
  for (const YAML::Node& one : objects) {
    const bool workload = one["spec"] && (one["spec"]["template"] || one["spec"]["replicatedJobs"]);
    EXPECT_EQ(workload, static_cast<bool>(one["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]));
  }
}

TEST(Kubernetes, WhatCannotRunThereIsRejectedWithWhatToDo) {
  RunConfig config = Clustered();
  EXPECT_EQ(Fault(config), "");
  config.name = "Math_1";
  EXPECT_THAT(Fault(config), HasSubstr("run.name 'Math_1'"));
  config = Clustered();
  config.cluster.registry.kind = RegistryKind::kLocal;
  EXPECT_THAT(Fault(config), HasSubstr("cluster.registry.kind=etcd"));
  config = Clustered();
  config.cluster.kubernetes.image.clear();
  EXPECT_THAT(Fault(config), HasSubstr("cluster.kubernetes.image"));
  config = Clustered();
  config.cluster.kubernetes.volume_claim.clear();
  EXPECT_THAT(Fault(config), HasSubstr("cluster.kubernetes.volume_claim"));
  config = Clustered();
  config.cluster.kubernetes.token_secret.clear();
  EXPECT_THAT(Fault(config), HasSubstr("kubectl create secret"));
  config = Clustered();
  config.cluster.kubernetes.tls_secret.clear();
  EXPECT_THAT(Fault(config), HasSubstr("cluster.kubernetes.tls_secret"));
  config = Clustered();
  config.cluster.groups[2].resources.erase("memory");
  EXPECT_THAT(Fault(config), HasSubstr("('trainer'): resources must specify how much memory"));
  config = Clustered();
  config.cluster.kubernetes.env["PGPASSWORD"] = "pool";
  EXPECT_THAT(Fault(config), HasSubstr("SECRET/KEY"));
  config = Clustered();
  config.cluster.groups.clear();
  EXPECT_THAT(Fault(config), HasSubstr("cluster.groups"));
}

// kubectl as lists of answers; it notes what it was asked.
class KubernetesLauncherTest : public ::testing::Test {
 protected:
  KubernetesLauncher RunLauncher() {
    JobOptions options;
    options.poll = std::chrono::milliseconds(0);
    options.on_status = [this](const std::string& line) { lines_.push_back(line); };
    options.run = [this](const std::vector<std::string>& argv) -> absl::StatusOr<std::string> {
      EXPECT_EQ(argv[0], "kubectl");
      verbs_.push_back(argv[3] == "get" ? argv[3] + " " + argv[4] : argv[3]);
      if (argv[3] == "apply") return applied_;
      if (argv[3] == "delete") return std::string();
      if (argv.back() == "json") return Next(pods_, R"({"items": []})");
      return Next(argv[4] == "job" ? conditions_ : names_, "");
    };
    return {config_, "run: {}\n", "/runs/math-1/kubernetes.yaml", options};
  }

  absl::StatusOr<int> Launch() {
    KubernetesLauncher launcher = RunLauncher();
    INGOT_RETURN_IF_ERROR(launcher.Start());
    return launcher.Watch(stop_);
  }

  static std::string Next(std::vector<std::string>& answers, const std::string& last) {
    if (answers.empty()) return last;
    const std::string answer = answers.front();
    answers.erase(answers.begin());
    return answer;
  }

  const RunConfig config_ = Clustered();
  absl::StatusOr<std::string> applied_ = std::string();
  // Answers about the Job, the pods (JSON), and the names of objects.
  std::vector<std::string> conditions_, pods_, names_;
  std::vector<std::string> lines_, verbs_;
  std::atomic<bool> stop_ = false;
};

TEST_F(KubernetesLauncherTest, FollowsTheTrainersJobAndThenRemovesTheOthers) {
  conditions_ = {"", "0", "1", "SuccessCriteriaMet=True Complete=True 0"};
  names_ = {"pod/ingot-math-1-engines-0", ""};
  const auto code = Launch();
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(lines_, ElementsAre("job ingot-math-1-trainer is starting", "job ingot-math-1-trainer is running",
                                  "job ingot-math-1-trainer is complete", "job ingot-math-1-trainer is being stopped"));
  EXPECT_THAT(verbs_, ElementsAre("apply", "get job", "get pods", "get job", "get pods", "get job", "get pods",
                                  "get job", "delete", "get pods", "get pods"));
}

TEST_F(KubernetesLauncherTest, SaysWhichPodsDoNotRunAndWhy) {
  conditions_ = {"Suspended=True ", "0", "1", "1", "Complete=True 0"};
  const std::string unscheduled = R"("status": {"phase": "Pending", "conditions": [
      {"type": "PodReadyToStartContainers", "status": "False"},
      {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: 3 Insufficient cpu."}]})";
  const std::string scheduled = R"("conditions": [{"type": "PodScheduled", "status": "True"},
      {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers: [ingot]"}])";
  const std::string unpulled = R"("status": {)" + scheduled + R"(, "containerStatuses": [
      {"name": "ingot", "ready": false, "state": {"waiting": {"reason": "PodInitializing"}}}], "initContainerStatuses": [
      {"name": "secrets", "ready": false, "state": {"waiting": {"reason": "ImagePullBackOff",
                                                             "message": "Back-off pulling image \"a:1\""}}}]})";
  const std::string crashed = R"("status": {)" + scheduled + R"(, "initContainerStatuses": [
      {"name": "secrets", "ready": true, "state": {"terminated": {"exitCode": 0}}}], "containerStatuses": [
      {"name": "ingot", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}}]})";
  const std::string runs = R"("status": {"conditions": [{"type": "PodScheduled", "status": "True"}],
      "containerStatuses": [{"name": "ingot", "ready": true, "state": {"running": {"startedAt": "2026"}}}]})";
  const auto pod = [](const std::string& name, const std::string& status) {
    return R"({"metadata": {"name": ")" + name + "\"}, " + status + "}";
  };
  pods_ = {
      R"({"items": []})",
      R"({"items": [)" + pod("e-0", unscheduled) + "," + pod("t-0", unpulled) + "," + pod("e-1", unscheduled) + "]}",
      R"({"items": [)" + pod("e-0", runs) + "," + pod("t-0", runs) + "," + pod("e-1", crashed) + "]}",
      R"({"items": [)" + pod("e-0", runs) + "," + pod("t-0", runs) + "," + pod("e-1", runs) + "]}"};
  EXPECT_EQ(*Launch(), 0);
  ASSERT_EQ(lines_.size(), 5U);
  EXPECT_EQ(lines_[0], "job ingot-math-1-trainer is suspended until its queue admits it");
  EXPECT_EQ(lines_[1],
            "job ingot-math-1-trainer is starting (pods e-0, e-1: Unschedulable: 0/3 nodes: 3 Insufficient cpu.; "
            "pod t-0: ImagePullBackOff: Back-off pulling image \"a:1\")");
  EXPECT_EQ(lines_[2], "job ingot-math-1-trainer is running (pod e-1: CrashLoopBackOff: back-off 10s)");
  EXPECT_EQ(lines_[3], "job ingot-math-1-trainer is running");
}

TEST_F(KubernetesLauncherTest, FindsTheObjectsOfAnEarlierLaunch) {
  EXPECT_EQ(*RunLauncher().Present(), "");
  names_ = {"configmap/ingot-math-1\njob.batch/ingot-math-1-trainer"};
  EXPECT_EQ(*RunLauncher().Present(),
            "job ingot-math-1-trainer is starting, and the namespace default holds configmap/ingot-math-1, "
            "job.batch/ingot-math-1-trainer; `kubectl --namespace default delete --filename "
            "/runs/math-1/kubernetes.yaml` ends it");
  EXPECT_THAT(verbs_, ElementsAre("get configmaps,jobs,pods", "get configmaps,jobs,pods", "get job", "get pods"));
}

TEST_F(KubernetesLauncherTest, AFailedJobFailsTheRun) {
  conditions_ = {"FailureTarget=True Failed=True "};
  EXPECT_EQ(*Launch(), 1);
}

TEST_F(KubernetesLauncherTest, WhatWasAppliedInVainIsRemoved) {
  applied_ = absl::UnavailableError("forbidden");
  EXPECT_TRUE(absl::IsUnavailable(Launch().status()));
  EXPECT_THAT(verbs_, ElementsAre("apply", "delete"));
}

TEST_F(KubernetesLauncherTest, StopsInOrderAndWaitsForThePods) {
  stop_ = true;
  names_ = {"pod/ingot-math-1-trainer-0-x7k2p", ""};
  EXPECT_TRUE(absl::IsCancelled(Launch().status()));
  EXPECT_THAT(verbs_, ElementsAre("apply", "delete", "get pods", "get pods"));
}

}  // namespace
}  // namespace ingot::app::kubernetes_test
