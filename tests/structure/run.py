#!/usr/bin/env python3
"""The rules of the house, checked from the text of the tree: who may include whom, no cycles between rooms, sizes of files, headers without
heavy libraries, and that no row of a table lacks a body or a test. Ends with `N passed, N failed`.
"""
import os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASE = ['src/diag', 'src/num']
# Room -> rooms it may include besides itself. src/cli and tests may include all.
MAY_INCLUDE = {
    'src/diag': [],
    'src/num': ['src/diag'],
    'src/ir': BASE,
    'src/eval': BASE + ['src/ir'],
    'src/io': BASE + ['src/ir'],
    'grammar/hlo': BASE + ['src/ir'],
    'grammar/kernel': BASE + ['src/ir', 'backend/kernel', 'grammar/hlo'],
    'grammar/bundle': BASE + ['backend/chip', 'backend/isa', 'backend/llo'],
    'passes': BASE + ['src/ir', 'src/eval', 'backend/chip', 'passes/simplify', 'grammar/hlo'],
    'passes/simplify': BASE + ['src/ir', 'src/eval', 'backend/chip', 'passes'],
    'backend/chip': BASE + ['backend/isa'],
    'backend/isa': BASE + ['backend/chip'],
    'backend/kernel': BASE + ['src/ir', 'src/eval', 'backend/chip'],
    'backend/llo': BASE + ['backend/chip', 'backend/isa'],
    'backend/lower': BASE + ['src/ir', 'src/eval', 'backend/chip', 'backend/isa', 'backend/kernel', 'backend/llo'],
    'backend/schedule': BASE + ['backend/chip', 'backend/isa', 'backend/llo', 'backend/regalloc'],
    'backend/regalloc': BASE + ['backend/chip', 'backend/isa', 'backend/llo', 'backend/schedule'],
    'backend/tlp': BASE + ['src/ir', 'backend/chip', 'backend/isa', 'backend/kernel', 'backend/llo', 'backend/lower'],
    'backend/interp': BASE + ['backend/chip', 'backend/isa', 'grammar/bundle'],
    'backend/report': BASE + ['backend/chip', 'backend/isa'],
}
ONE_HOUSE = [{'backend/chip', 'backend/isa'}, {'backend/schedule', 'backend/regalloc'}, {'passes', 'passes/simplify'}]
HEAVY = re.compile(r'<(CLI/|nlohmann/|re2/|gtest/)')
MOST_LINES = 800
problems, passed = [], 0

def check(ok, name, why=''):
    global passed
    if ok:
        passed += 1
    else:
        problems.append(f'FAIL {name}: {why}')

def tracked():
    try:
        out = subprocess.run(['git', 'ls-files'], cwd=ROOT, capture_output=True, text=True)
        if out.returncode == 0 and out.stdout:
            return [f for f in out.stdout.splitlines() if os.path.exists(os.path.join(ROOT, f))]
    except FileNotFoundError:
        pass  # no git: every file that is not made by a build
    files = []
    for folder, dirs, names in os.walk(ROOT):
        dirs[:] = [d for d in dirs if not d.startswith('.') and not d.startswith('build') and d != '__pycache__']
        files += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names if n != '.git']
    return sorted(files)

def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8', errors='replace') as f:
        return f.read()

def room_of(path):
    folder = os.path.dirname(path)
    return folder if folder in MAY_INCLUDE or folder == 'src/cli' else None

def check_includes(sources):
    edges = {}
    for path, text in sources.items():
        room = room_of(path)
        if room is None:
            continue
        bad = []
        for include in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            other = room_of(include)
            if other is None or other == room:
                continue
            edges.setdefault(room, set()).add(other)
            if room != 'src/cli' and other not in MAY_INCLUDE[room]:
                bad.append(include)
        check(not bad, path, f'{room} may not include {", ".join(bad)}')
        if path.endswith('.h'):
            heavy = HEAVY.findall(text)
            check(not heavy, path, f'a header includes {", ".join(heavy)}')
    house = lambda r: next((min(h) for h in ONE_HOUSE if r in h), r)
    graph = {}
    for room, others in edges.items():
        graph.setdefault(house(room), set()).update(house(o) for o in others if house(o) != house(room))
    state = {}
    def visit(room, trail):
        if state.get(room) == 'done':
            return
        if state.get(room) == 'open':
            check(False, 'rooms', 'a cycle: ' + ' -> '.join(trail[trail.index(room):] + [room]))
            return
        state[room] = 'open'
        for other in sorted(graph.get(room, ())):
            visit(other, trail + [room])
        state[room] = 'done'
    for room in sorted(graph):
        visit(room, [])
    check(True, 'rooms')

def check_files(sources):
    for path, text in sources.items():
        lines = text.count('\n')
        check(lines <= MOST_LINES or path.endswith('.def'), path, f'{lines} lines, more than {MOST_LINES}')
        stem = os.path.splitext(os.path.basename(path))[0]
        check(stem not in ('util', 'utils', 'helper', 'helpers', 'common', 'misc'), path, 'says nothing by its name')
        if path.endswith('.h'):
            check(text.startswith('//'), path, 'has no comment at its head')
            check('#pragma once' in text or path.endswith('-inl.h'), path, 'has no #pragma once')  # -inl.h: once a SIMD target
        check('absl/log' not in text and '#include <format>' not in text, path, 'includes what Debian 12 lacks')

# Opcodes that are read, kept and printed; what they compute is not known yet.
ONLY_TEXT = set()

def rows(path, macro):
    text = re.sub(r'^\s*//.*$', '', read(path), flags=re.M)
    return [r for r in re.findall(rf'^{macro}\((\w+),\s*"([^"]*)"', text, re.M)]

def check_tables(files, sources):
    tests = '\n'.join(read(f) for f in files if f.startswith('tests/') and f.endswith(('.cc', '.py', '.txt', '.tsv', '.hlo', '.tk', '.test')) and f != 'tests/structure/run.py')
    for name, code in rows('src/diag/diag.def', 'DIAG'):
        check(re.search(rf'\b(k?{name}|{code})\b', tests), f'diag.def {code} {name}', 'no test provokes it')
    ids = [r[0] for r in rows('src/diag/diag.def', 'DIAG')]
    check(len(ids) == len(set(ids)), 'diag.def', 'an id twice')
    for name, code in rows('src/diag/diag.def', 'DIAG'):
        check(re.fullmatch(r'[EWN]\d{4}', code), f'diag.def {code}', 'not a code')
        used = any(f'DiagCode::{name}' in t for p, t in sources.items() if not p.startswith('tests/'))
        check(used, f'diag.def {code} {name}', 'nothing reports it')
    interp = '\n'.join(t for p, t in sources.items() if p.startswith('backend/interp/'))
    if interp:
        for name, mnemonic in rows('backend/isa/isa.def', 'INST'):
            check(re.search(rf'\b{name}\b', interp), f'isa.def {mnemonic}', 'no body in backend/interp')
    evaluator = '\n'.join(t for p, t in sources.items() if p.startswith('src/eval/'))
    infer = '\n'.join(t for p, t in sources.items() if p.startswith('src/ir/'))
    if 'shape_inference' in infer:
        for name, text in rows('src/ir/hlo_ops.def', 'HLO_OP'):
            known = re.search(rf'\bOp::{name}\b', infer + evaluator)
            check(bool(known) != (text in ONLY_TEXT), f'hlo_ops.def {text}', 'known to shape inference or the evaluator, or listed as only text: one of the two')
    passes = read('passes/pipeline.cc') if os.path.exists(os.path.join(ROOT, 'passes/pipeline.cc')) else ''
    for name in re.findall(r'^\s*\{"([\w-]+)",', passes, re.M):
        check(re.search(rf'["\'=,]{re.escape(name)}\b', tests), f'pass {name}', 'no test names it')

def check_text(files):
    for path in files:
        if path.endswith(('.npz', '.npy')) or path == 'LICENSE':
            continue
        text = read(path)
        check(not re.search(r'/(?:work|home/\w+)/(?!\.)', text) or path == 'tests/structure/run.py', path, 'holds a path of one machine')

def main():
    files = tracked()
    sources = {f: read(f) for f in files if f.endswith(('.h', '.cc', '.def'))}
    check_includes(sources)
    check_files(sources)
    check_tables(files, sources)
    check_text(files)
    print('\n'.join(problems + [f'{passed} passed, {len(problems)} failed']))
    return 1 if problems else 0

if __name__ == '__main__':
    sys.exit(main())
