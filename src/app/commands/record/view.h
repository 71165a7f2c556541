// `ingot view`: serves a run's web page.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct ViewArgs {
  std::string run_dir;
  std::string host = "127.0.0.1";
  int port = 0;                          // 0 = any free port
  std::string tls_certificate, tls_key;  // PEM files; empty = use those in the run's configuration
  bool allow_plaintext = false;  // allows plaintext on non-loopback addresses; the configuration may also allow it
  std::vector<std::string> allow_hosts, allow_origins;  // see http::Options; added to the configuration's
  bool files = false;  // reads the run's files even if a process already serves its page
};
int View(const ViewArgs& args);

}  // namespace ingot::app
