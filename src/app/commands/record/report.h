// `ingot report` and `ingot compare`.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct ReportArgs {
  std::string run_dir;
  // The HTML file, replaced. Empty = NAME.html in the current folder; replaced if it is an earlier report of the same
  // run.
  std::string out;
};
int Report(const ReportArgs& args);

struct CompareArgs {
  std::vector<std::string> run_dirs;
  std::string html;  // file for the curves, replaced; empty = only the table
};
int Compare(const CompareArgs& args);

}  // namespace ingot::app
