// `ingot tasks import`: JSON lines of tasks from tables of others: CSV, JSON, Parquet and data sets of Hugging Face.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::app {

struct TasksImportArgs {
  std::string source;  // a file, or a folder of Hugging Face
  std::string out;     // replaced once every row has been read
  // FIELD=COLUMN, or NAME for both: the fields of a task; empty = all columns under their own names.
  std::vector<std::string> fields;
  // FIELD=PATTERN: the first group that matches, or else the whole match, replaces the field's text (Python's syntax).
  std::vector<std::string> extract;
  std::string id;      // the column with task ids; empty = a column task_id, or the rows' numbers
  std::string domain;  // of all tasks; empty = none
  std::string split;   // of a data set; empty = train
  int64_t limit = 0;   // rows; 0 = all
  std::string python;  // empty = reward::UserPython
};

// Reads the source in the interpreter, outside the data path. Returns the exit code.
int TasksImport(const TasksImportArgs& args);

}  // namespace ingot::app
