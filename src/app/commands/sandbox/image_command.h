// `ingot image` unpacks images into a store, lists them and removes them.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct ImageArgs {
  std::string source;                    // to unpack
  std::string store;                     // empty = the default work root's
  std::vector<std::string> build_hosts;  // that a Dockerfile's steps may reach (sandbox/egress/egress_list.h)
  bool list = false;
  std::vector<std::string> remove;  // digests and sources
  int prune_days = -1;              // removes images not used for this many days; -1 = none
};

// Does one of these:
//   source      unpacks the image, and prints one JSON object: digest, rootfs, env and working_dir
//   list        prints a line per image: digest, size, day of the last use, sources; and a line of their sum
//   remove      removes the images, and prints a line for each
//   prune_days  the same for all images that were not used for that long
// Returns the exit code: 1 with a line on `errors` if there is no such image, or a process uses the store; 2 if not
// exactly one is given; 130 after SIGINT or SIGTERM, which end the tools of an unpacking and leave nothing half done.
int RunImage(const ImageArgs& args, std::ostream& out, std::ostream& errors);

// `named`, or the default store.
std::string ImageStoreFolder(const std::string& named);

}  // namespace ingot::app
