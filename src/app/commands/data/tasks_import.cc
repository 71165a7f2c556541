#include "app/commands/data/tasks_import.h"

#include <utility>

#include "absl/strings/str_replace.h"
#include "app/commands/data/python_program.h"
#include "base/file.h"
#include "base/json.h"
#include "dataset/tasks.h"

namespace ingot::app {
namespace {

// Receives the options as JSON and writes one task per line.
constexpr char kProgram[] = R"py(
import csv, datetime, decimal, itertools, json, os, re, sys
options = json.loads(sys.argv[1])
source = options['source']

def stop(text):
    sys.exit('ingot: ' + text)

def needs(package):
    stop("reading '%s' needs the package %s: %s -m pip install %s, or name another Python with --python"
         % (source, package, sys.executable, package))

def table(path):
    name = path.lower()
    if name.endswith(('.csv', '.tsv')):
        csv.field_size_limit(1 << 30)
        with open(path, newline='', encoding='utf-8-sig') as file:
            yield from csv.DictReader(file, delimiter='\t' if name.endswith('.tsv') else ',')
    elif name.endswith(('.jsonl', '.ndjson')):
        with open(path, encoding='utf-8') as file:
            yield from (json.loads(line) for line in file if line.strip())
    elif name.endswith('.json'):
        with open(path, encoding='utf-8') as file:
            rows = json.load(file)
        yield from rows if isinstance(rows, list) else stop("'%s' is not a list of objects" % path)
    elif name.endswith('.parquet'):
        try:
            import pyarrow.parquet
        except ImportError:
            needs('pyarrow')
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    else:
        stop("'%s' is not a table that is known: .csv, .tsv, .json, .jsonl, .parquet, or a folder of Hugging Face" % path)

# A folder of save_to_disk, or one whose files' names begin with the split, as on the Hub.
def folder(path, split):
    if any(os.path.exists(os.path.join(path, name)) for name in ('dataset_dict.json', 'dataset_info.json', 'state.json')):
        try:
            import datasets
        except ImportError:
            needs('datasets')
        found = datasets.load_from_disk(path)
        if hasattr(found, 'keys'):
            if split not in found:
                stop("'%s' has no split '%s'; it has: %s" % (path, split, ', '.join(found)))
            found = found[split]
        yield from found
        return
    names = [os.path.join(root, name) for root, _, files in os.walk(path) for name in files
             if name.lower().endswith(('.parquet', '.jsonl', '.json', '.csv', '.tsv'))]
    mine = sorted(name for name in names if os.path.basename(name).startswith(split))
    if not mine:
        stop("'%s' has no table whose name begins with '%s'; it has: %s"
             % (path, split, ', '.join(sorted(os.path.relpath(name, path) for name in names)[:20]) or 'none'))
    for name in mine:
        yield from table(name)

def plain(value):
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return value.decode('utf-8', 'replace')
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError('a value of type %s' % type(value).__name__)

def column(row, name, number):
    if name not in row:
        stop("row %d of '%s' has no column '%s'; it has: %s" % (number, source, name, ', '.join(map(str, row))))
    return row[name]

fields = [pair.split('=', 1) if '=' in pair else (pair, pair) for pair in options['fields']]
patterns = [(name, re.compile(pattern)) for name, pattern in (pair.split('=', 1) for pair in options['extract'])]
try:
    rows = folder(source, options['split']) if os.path.isdir(source) else table(source)
    for number, row in enumerate(itertools.islice(rows, options['limit'] or None), 1):
        if not isinstance(row, dict):
            stop("row %d of '%s' is not an object" % (number, source))
        task = {name: column(row, of, number) for name, of in fields} if fields else dict(row)
        for name, pattern in patterns:
            text = str(column(task, name, number))
            match = pattern.search(text)
            if match is None:
                stop("row %d of '%s': '%s' does not match %s: %s" % (number, source, name, pattern.pattern, text[:200]))
            task[name] = match.group(1) if pattern.groups else match.group(0)
        if options['id']:
            task['task_id'] = str(column(row, options['id'], number))
        task.setdefault('task_id', 'row-%d' % number)
        if options['domain']:
            task['domain'] = options['domain']
        print(json.dumps(task, ensure_ascii=False, default=plain))
except (OSError, UnicodeDecodeError, ValueError, TypeError, csv.Error) as error:
    stop("cannot read '%s': %s" % (source, error))
)py";

absl::Status CheckPatterns(const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals != std::string::npos && equals > 0 && equals + 1 < pair.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--extract is '", pair, "': write FIELD=PATTERN"));
  }
  return absl::OkStatus();
}

std::string OptionsJson(const TasksImportArgs& args) {
  using base::json::array;
  return base::PrintJson(base::json::object{{"source", args.source},
                                            {"fields", array(args.fields.begin(), args.fields.end())},
                                            {"extract", array(args.extract.begin(), args.extract.end())},
                                            {"id", args.id},
                                            {"domain", args.domain},
                                            {"split", args.split.empty() ? "train" : args.split},
                                            {"limit", args.limit}});
}

absl::Status Import(const TasksImportArgs& args, size_t& tasks) {
  INGOT_RETURN_IF_ERROR(CheckPatterns(args.extract));
  return base::ReplaceFileBy(args.out, [&](int fd, const std::string& draft) -> absl::Status {
    INGOT_RETURN_IF_ERROR(RunPythonProgram(args.python, kProgram, OptionsJson(args), fd));
    const absl::StatusOr<std::vector<v1::Task>> read = dataset::LoadTasks(draft);
    tasks = read.ok() ? read->size() : 0;
    if (read.ok()) return absl::OkStatus();
    // The draft's lines are the source's rows.
    return absl::InvalidArgumentError(
        absl::StrReplaceAll(read.status().message(), {{draft, absl::StrCat("the rows of ", args.source)}}));
  });
}

}  // namespace

int TasksImport(const TasksImportArgs& args) {
  size_t tasks = 0;
  const absl::Status imported = Import(args, tasks);
  return ReportTasks(imported, tasks, args.out);
}

}  // namespace ingot::app
