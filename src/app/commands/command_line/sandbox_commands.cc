#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/sandbox/image_command.h"
#include "app/commands/sandbox/sandbox_serve.h"

namespace ingot::app {
namespace {

Command::Run DeclareSandboxServe(CLI::App& parser) {
  const auto args = std::make_shared<SandboxServeArgs>();
  args->sandbox.require = "namespaces";
  parser.add_option("--host", args->http.host, "IP address to listen on")->capture_default_str();
  parser.add_option("--port", args->http.port, "0: the system chooses")->capture_default_str();
  parser.add_option("--tls-certificate", args->http.tls_certificate, "PEM file");
  parser.add_option("--tls-key", args->http.tls_key, "PEM file");
  parser.add_option("--key-file", args->key_file,
                    "file of the key that clients show; default: sandbox.key in ~/.local/state/ingot, made if missing");
  parser.add_flag("--no-key", args->no_key, "clients show no key; on a loopback address only");
  AddSites(parser, args->http.allow_hosts, args->http.allow_origins);
  parser.add_option("--slots", args->slots, "requests that run at a time")->capture_default_str();
  parser.add_option("--sessions", args->sessions, "sessions at a time")->capture_default_str();
  parser.add_option("--session-idle", args->session_idle_s, "seconds after which an unused session ends")
      ->capture_default_str();
  parser
      .add_option("--session-memory", args->session_memory_mib, "MiB of a session that does not ask for another size")
      ->capture_default_str();
  parser
      .add_option("--memory", args->memory_mib,
                  "MiB that all sessions may use; 0: no limit, -1: three quarters of the free memory")
      ->capture_default_str();
  parser.add_option("--require", args->sandbox.require, "minimum isolation level")
      ->type_name("{none,landlock,namespaces,full}")
      ->capture_default_str();
  parser.add_option("--store", args->store, "folder of images");
  parser
      .add_option("--image-folder", args->image_folders,
                  "folder whose archives clients may name as images; default: none")
      ->type_name("FOLDER");
  return [args] { return SandboxServe(*args); };
}

Command::Run DeclareImage(CLI::App& parser) {
  const auto args = std::make_shared<ImageArgs>();
  parser.add_option("source", args->source,
                    "oci-archive:FILE, docker-archive:FILE, oci:FOLDER, dockerfile:FOLDER, docker://NAME");
  parser
      .add_option("--build-host", args->build_hosts,
                  "host that Dockerfile steps may reach, including the base image's registry; default: none")
      ->type_name("HOST:PORT");
  parser.add_flag("--list", args->list, "list the store's images: digest, size, last use, sources");
  parser.add_option("--remove", args->remove, "remove these images, by digest or source")->type_name("IMAGE");
  parser.add_option("--prune", args->prune_days, "remove images not used for this many days")
      ->type_name("DAYS")
      ->check(CLI::NonNegativeNumber);
  parser.add_option("--store", args->store, "folder of images; default: images/ in the default agents.work_root");
  return [args] { return RunImage(*args, std::cout, std::cerr); };
}

}  // namespace

std::vector<Command> SandboxCommands() {
  return {
      {"sandbox",
       "sandboxes without a run",
       nullptr,
       {{.name = "serve",
         .summary = "execute code in sandboxes, over HTTP",
         .declare = DeclareSandboxServe,
         .holds_keys = true,
         .logs = true}}},
      {"image", "unpack an image into a folder for agents' sandboxes; list and remove images", DeclareImage},
  };
}

}  // namespace ingot::app
