// `ingot tasks import`: converts CSV, JSON, Parquet, and Hugging Face data sets to JSON lines of tasks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::app {

struct TasksImportArgs {
  std::string source;  // a file, or the folder of a Hugging Face data set
  std::string out;     // replaced once every row has been read
  // The task fields: FIELD=COLUMN, or NAME if both are the same. Empty = all columns under their own names.
  std::vector<std::string> fields;
  // FIELD=PATTERN, a Python regular expression. The first group that matched, or else the whole match, replaces the
  // field's value.
  std::vector<std::string> extract;
  std::string id;      // the column with task ids; empty = the column task_id, or else row numbers
  std::string domain;  // for all tasks; empty = none
  std::string split;   // split of the data set; empty = train
  int64_t limit = 0;   // maximum number of rows; 0 = all
  std::string python;  // empty = reward::UserPython
};

// Reads the source with the Python interpreter, outside the data path. Returns the exit code.
int TasksImport(const TasksImportArgs& args);

}  // namespace ingot::app
