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
  parser.add_option("--port", args->http.port, "port to listen on; 0: any free port")->capture_default_str();
  parser.add_option("--tls-certificate", args->http.tls_certificate, "PEM file");
  parser.add_option("--tls-key", args->http.tls_key, "PEM file");
  parser.add_option("--key-file", args->key_file,
                    "file with the key that clients send; default: sandbox.key in ~/.local/state/ingot, created if it "
                    "does not exist");
  parser.add_flag("--no-key", args->no_key, "require no key; only for a loopback address");
  AddSites(parser, args->http.allow_hosts, args->http.allow_origins);
  parser.add_option("--slots", args->slots, "maximum number of concurrent requests")->capture_default_str();
  parser.add_option("--sessions", args->sessions, "maximum number of concurrent sessions")->capture_default_str();
  parser.add_option("--session-idle", args->session_idle_s, "seconds after which an unused session ends")
      ->capture_default_str();
  parser
      .add_option("--session-memory", args->session_memory_mib,
                  "memory of a session, in MiB, unless it requests another size")
      ->capture_default_str();
  parser
      .add_option(
          "--memory", args->memory_mib,
          "memory that all sessions together may use, in MiB; 0: no limit; -1: three quarters of the free memory")
      ->capture_default_str();
  parser.add_option("--require", args->sandbox.require, "minimum isolation level")
      ->type_name("{none,landlock,namespaces,full}")
      ->capture_default_str();
  parser.add_option("--store", args->store, "image folder");
  parser
      .add_option("--image-folder", args->image_folders,
                  "folder whose archives clients may use as images; default: none")
      ->type_name("FOLDER");
  return [args] { return SandboxServe(*args); };
}

Command::Run DeclareImage(CLI::App& parser) {
  const auto args = std::make_shared<ImageArgs>();
  parser.add_option("source", args->source,
                    "oci-archive:FILE, docker-archive:FILE, oci:FOLDER, dockerfile:FOLDER, docker://NAME");
  parser
      .add_option("--build-host", args->build_hosts,
                  "host that Dockerfile steps may connect to, including the base image's registry; default: none")
      ->type_name("HOST:PORT");
  parser.add_flag("--list", args->list, "list the stored images with digest, size, last use, and sources");
  parser.add_option("--remove", args->remove, "remove these images, by digest or source")->type_name("IMAGE");
  parser.add_option("--prune", args->prune_days, "remove images not used for this many days")
      ->type_name("DAYS")
      ->check(CLI::NonNegativeNumber);
  parser.add_option("--store", args->store, "image folder; default: images/ in the default agents.work_root");
  return [args] { return RunImage(*args, std::cout, std::cerr); };
}

}  // namespace

std::vector<Command> SandboxCommands() {
  return {
      {"sandbox",
       "use sandboxes without a run",
       nullptr,
       {{.name = "serve",
         .summary = "execute code in sandboxes, over HTTP",
         .declare = DeclareSandboxServe,
         .holds_keys = true,
         .logs = true}}},
      {"image", "unpack an image for agents' sandboxes, or list or remove images", DeclareImage},
  };
}

}  // namespace ingot::app
