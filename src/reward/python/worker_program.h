// The program that PythonFunction's processes run. Its arguments are the file's path or the module, and the function's
// name. A copy of the file is in the working directory. Stack traces show the original path.
//
// It reads lines from the socket that is its stdout, and answers each with one line:
//
//   {"arguments": {NAME: value}, "archive": base64 of a tar}    {"result": JSON}
//   {"load": [NAME, ..]}                                        {"result": null}
//                                                               {"error": text} instead of either
#pragma once

namespace ingot::reward {

inline constexpr char kPythonWorker[] = R"py(
import base64, contextlib, importlib, inspect, io, json, linecache, math, numbers, os, socket, sys, tarfile, traceback
import types
place, name = sys.argv[1:3]
channel = socket.socket(fileno=os.dup(1))
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the socket carries replies alone

class Fault(Exception):
    pass

def load():
    if not place.endswith('.py'):
        module = importlib.import_module(place)
    else:
        own = os.path.basename(place)
        with open(own, encoding='utf-8') as file:
            source = file.read()
        module = types.ModuleType(own[:-3])
        module.__file__ = place
        sys.modules[module.__name__] = module
        linecache.cache[place] = (len(source), None, source.splitlines(True), place)
        exec(compile(source, place, 'exec'), module.__dict__)
    found = getattr(module, name, None)
    if not callable(found):
        raise Fault('%s has no function %s' % (place, name))
    return found

def arguments_of(function, given):
    taken = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_KEYWORD:
            return given
        if parameter.kind == parameter.VAR_POSITIONAL:
            continue
        if parameter.name in given and parameter.kind != parameter.POSITIONAL_ONLY:
            taken[parameter.name] = given[parameter.name]
        elif parameter.default is parameter.empty:
            raise Fault('it takes an argument %s, which does not exist; available: %s' % (parameter.name, ', '.join(sorted(given))))
    return taken

def plain(value):  # numbers of numpy and torch too
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (dict, list, tuple)) or value is None or isinstance(value, str):
        return value
    if isinstance(value, numbers.Real) or hasattr(value, '__float__'):
        return float(value)
    raise Fault('it returned a value of type %s, which is neither a number nor JSON' % type(value).__name__)

def checked(value, where='it'):
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Fault('%s returned %r, which is not a finite number' % (where, value))
    if isinstance(value, dict):
        return {str(key): checked(each, '%s[%r]' % (where, key)) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [checked(each, '%s[%d]' % (where, i)) for i, each in enumerate(value)]
    return value

def files_in(archive):
    files = {}
    if archive:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as tar:
            for member in tar:
                if member.isfile() and member.name.startswith('work/'):
                    files[member.name[len('work/'):]] = tar.extractfile(member).read()
    return files

def trace(error):
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == '<string>':
        frames = frames.tb_next
    return ''.join(traceback.format_exception(type(error), error, frames)).rstrip()

function = None
def answer(question):
    global function
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            if function is None:
                function = load()
            if 'load' in question:
                arguments_of(function, dict.fromkeys(question['load']))
                return {'result': None}
            given = question['arguments']
            if question['archive']:
                given['files'] = files_in(question['archive'])
            return {'result': checked(function(**arguments_of(function, given)))}
    except Fault as fault:
        return {'error': str(fault)}
    except BaseException as error:
        said = printed.getvalue()[-1000:]
        return {'error': trace(error) + ('\nit printed: ' + said if said else '')}

channel.sendall(b'ready\n')
for line in channel.makefile('r', encoding='utf-8', newline='\n'):
    channel.sendall((json.dumps(answer(json.loads(line))) + '\n').encode())
)py";

}  // namespace ingot::reward
