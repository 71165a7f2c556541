// `ingot report` and `ingot compare`: show runs as HTML files and tables.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct ReportArgs {
  std::string run_dir;
  // HTML file to overwrite. Empty = NAME.html in the current directory, which is overwritten only if it is an earlier
  // report for the same run.
  std::string out;
};
int Report(const ReportArgs& args);

struct CompareArgs {
  std::vector<std::string> run_dirs;
  std::string html;  // output file for the curves, overwritten; empty = none
  bool json = false;
};
int Compare(const CompareArgs& args);

}  // namespace ingot::app
