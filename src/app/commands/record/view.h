// `ingot view`.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct ViewArgs {
  std::string run_dir;
  std::string host = "127.0.0.1";
  int port = 0;                          // 0 = a free one
  std::string tls_certificate, tls_key;  // PEM files; empty = those of the run's configuration
  bool allow_plaintext = false;          // on an address other than loopback; the configuration may allow it too
  std::vector<std::string> allow_hosts, allow_origins;  // http::Options', added to the configuration's
  bool files = false;                                   // even if a process serves the run's page
};
int View(const ViewArgs& args);

}  // namespace ingot::app
